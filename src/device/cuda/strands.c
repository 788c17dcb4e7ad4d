/* Streams beside the card's own, in which runs of plans happen beside one another: the kernels of a small shard do not
 * fill a card. The card's own stream, the line, waits for all of them before anything else is done, and they wait for
 * what was done. */
#include "device/cuda/card.h"

ls_card *ls_card_in_line(ls_executor *executor)
{
    ls_card *card = ls_card_of(executor);
    ls_card_line_up(card);
    return card;
}

void ls_card_line_up(ls_card *card)
{
    for (int i = 1; i < LS_CARD_STRANDS; i++) {
        ls_card_strand *strand = &card->strands[i];
        if (!strand->used)
            continue;
        cudaError_t error = cudaEventRecord(strand->reached, strand->stream);
        if (error == cudaSuccess) /* also where something else has failed: what the strand uses may be freed next */
            error = cudaStreamWaitEvent(card->line, strand->reached, 0);
        ls_card_good(card, error, "waiting for a strand");
        strand->used = false;
    }
    card->moved = true;
}

static void close_strand(ls_card_strand *strand)
{
    for (int k = 0; k < LS_CARD_STAGED; k++)
        cudaFree(strand->staged[k].device);
    cudaFree(strand->blas_workspace);
    if (strand->stream)
        cudaStreamDestroy(strand->stream);
    if (strand->reached)
        cudaEventDestroy(strand->reached);
    *strand = (ls_card_strand){.stream = NULL};
}

static cudaError_t open_strand(ls_card_strand *strand)
{
    cudaError_t error = cudaStreamCreateWithFlags(&strand->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&strand->reached, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaMalloc(&strand->blas_workspace, LS_CARD_BLAS);
    return error;
}

bool ls_card_open_line(ls_card *card)
{
    const bool good =
        ls_card_good(card, open_strand(&card->strands[0]), "making a stream") &&
        ls_card_good(card, cudaEventCreateWithFlags(&card->turned, cudaEventDisableTiming), "making an event");
    card->line = card->stream = card->strands[0].stream;
    return good;
}

/* Three quarters of what is free stay so: images, a larger evaluation and other programs come after. */
bool ls_card_open_strand(ls_executor *executor, int number, size_t bytes)
{
    ls_card *card = ls_card_of(executor);
    ls_card_strand *strand = &card->strands[number];
    size_t spare = 0, all = 0;
    const size_t more = bytes + (strand->stream ? 0 : LS_CARD_BLAS);
    if (card->executor.status != LS_OK)
        return false;
    cudaError_t error = more ? cudaMemGetInfo(&spare, &all) : cudaSuccess;
    if (error == cudaSuccess && more > spare / 4)
        return false;
    if (error == cudaSuccess && !strand->stream && (error = open_strand(strand)) != cudaSuccess)
        close_strand(strand);
    if (error != cudaSuccess)
        cudaGetLastError(); /* it would be reported again */
    return error == cudaSuccess;
}

/* Has the strand's next run happen behind what is in the line. */
static bool wait_for_line(ls_card *card, ls_card_strand *strand)
{
    if (card->moved && ls_card_good(card, cudaEventRecord(card->turned, card->line), "an event")) {
        card->moved = false;
        card->turn++;
    }
    if (strand->turn != card->turn &&
        ls_card_good(card, cudaStreamWaitEvent(strand->stream, card->turned, 0), "waiting for the card's turn"))
        strand->turn = card->turn;
    return card->executor.status == LS_OK;
}

/* The libraries' handles have a stream, and cuBLAS's a workspace, which it forgets with the stream. Each strand has its
 * own: with the library's, products in a captured run would allocate, and with one for several streams cuBLAS would
 * choose by what else is under way, and bits would change. */
bool ls_card_take_libraries(ls_card *card, int number)
{
    ls_card_strand *strand = &card->strands[number];
    if (card->libraries == number)
        return true;
    const cudnnStatus_t dnn = cudnnSetStream(card->dnn, strand->stream);
    if (dnn != CUDNN_STATUS_SUCCESS)
        return ls_card_fail(card, LS_UNSUPPORTED, "starting cuDNN", cudnnGetErrorString(dnn));
    cublasStatus_t blas = cublasSetStream(card->blas, strand->stream);
    if (blas == CUBLAS_STATUS_SUCCESS)
        blas = cublasSetWorkspace(card->blas, strand->blas_workspace, LS_CARD_BLAS);
    if (blas != CUBLAS_STATUS_SUCCESS)
        return ls_card_fail(card, LS_UNSUPPORTED, "starting cuBLAS", cublasGetStatusString(blas));
    card->libraries = number;
    return true;
}

bool ls_card_enter_strand(ls_card *card, int number)
{
    ls_card_strand *strand = &card->strands[number];
    if (number == 0)
        ls_card_line_up(card);
    else if (!wait_for_line(card, strand))
        return false;
    if (!ls_card_take_libraries(card, number))
        return false;
    strand->used = number > 0;
    card->strand = number;
    card->stream = strand->stream;
    return true;
}

void ls_card_leave_strand(ls_card *card)
{
    card->strands[card->strand].used = card->strand > 0; /* again, where results were waited for meanwhile */
    card->strand = 0;
    card->stream = card->line;
}

void ls_card_close_strands(ls_card *card)
{
    for (int i = 0; i < LS_CARD_STRANDS; i++)
        close_strand(&card->strands[i]);
    if (card->turned)
        cudaEventDestroy(card->turned);
}
