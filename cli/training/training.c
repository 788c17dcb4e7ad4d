#include "training/training.h"
#include "record/record.h"
#include "run/watch.h"

void count_steps(training *t, const ls_checkpoint *from)
{
    const settings *c = t->run.chosen;
    t->steps = from->step + (c->epochs - from->epoch) * t->batches - from->batch; /* both factors are below 2^31 */
    if (c->steps && c->steps < t->steps)
        t->steps = c->steps;
    t->epochs = from->epoch + (from->batch + t->steps - from->step + t->batches - 1) / t->batches;
}

void training_end_line(training *t)
{
    const char *phase = watch_phase("writing the log");
    log_end(t->log);
    watch_phase(phase);
}

void take_reports(training *t)
{
    ls_report report;
    while (ls_trainer_next_report(t->trainer, &report)) {
        t->loss_sum += report.loss * report.rows;
        t->correct += report.correct;
        t->reported += report.rows;
        t->last_loss = report.loss;
        t->finished = report.step;
        t->finished_rows += report.rows;
        progress_step(&t->bar, report.step, report.loss, report.correct, report.rows);
        if (t->record)
            record_step(t->record, report.step, report.loss);
        watch_step(report.step);
        log_begin(t->log);
        log_integer(t->log, "step", report.step);
        log_number(t->log, "loss", report.loss);
        if (t->optim.clip_norm > 0)
            log_number(t->log, "grad_norm", report.norm);
        training_end_line(t);
    }
    run_say_lost(&t->run);
}
