/* Streams beside the card's own, in which runs of plans happen beside one another: the kernels of a small shard do not
 * fill a card. The card's own stream, the main stream, waits for all of them before anything else is done, and they
 * wait for what was done. */
#include "device/cuda/card.h"

ls_card *ls_card_in_main(ls_executor *executor)
{
    ls_card *card = ls_card_of(executor);
    ls_card_main_waits(card);
    return card;
}

void ls_card_main_waits(ls_card *card)
{
    for (int i = 1; i < LS_CARD_STREAMS; i++) {
        ls_card_stream *side_stream = &card->side_streams[i];
        if (!side_stream->used)
            continue;
        cudaError_t error = cudaEventRecord(side_stream->reached, side_stream->stream);
        if (error ==
            cudaSuccess) /* also where something else has failed: what the side stream uses may be freed next */
            error = cudaStreamWaitEvent(card->main, side_stream->reached, 0);
        ls_card_good(card, error, "waiting for a side stream");
        side_stream->used = false;
    }
    card->main_advanced = true;
}

static void close_side_stream(ls_card_stream *side_stream)
{
    for (int k = 0; k < LS_CARD_STAGED; k++)
        cudaFree(side_stream->staged[k].device);
    cudaFree(side_stream->blas_workspace);
    if (side_stream->stream)
        cudaStreamDestroy(side_stream->stream);
    if (side_stream->reached)
        cudaEventDestroy(side_stream->reached);
    *side_stream = (ls_card_stream){.stream = NULL};
}

static size_t blas_bytes(const ls_card *card)
{
    return ls_card_uses_libraries(card) ? LS_CARD_BLAS : 0;
}

static cudaError_t open_side_stream(const ls_card *card, ls_card_stream *side_stream)
{
    cudaError_t error = cudaStreamCreateWithFlags(&side_stream->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&side_stream->reached, cudaEventDisableTiming);
    if (error == cudaSuccess && blas_bytes(card))
        error = cudaMalloc(&side_stream->blas_workspace, blas_bytes(card));
    return error;
}

bool ls_card_open_main(ls_card *card)
{
    const bool good =
        ls_card_good(card, open_side_stream(card, &card->side_streams[0]), "making a stream") &&
        ls_card_good(card, cudaEventCreateWithFlags(&card->turned, cudaEventDisableTiming), "making an event");
    card->main = card->stream = card->side_streams[0].stream;
    return good;
}

/* Three quarters of what is free stay so: images, a larger evaluation and other programs come after. */
bool ls_card_open_side(ls_executor *executor, int number, size_t bytes)
{
    ls_card *card = ls_card_of(executor);
    ls_card_stream *side_stream = &card->side_streams[number];
    size_t spare = 0, all = 0;
    const size_t more = bytes + (side_stream->stream ? 0 : blas_bytes(card));
    if (card->executor.status != LS_OK)
        return false;
    cudaError_t error = more ? cudaMemGetInfo(&spare, &all) : cudaSuccess;
    if (error == cudaSuccess && more > spare / 4)
        return false;
    if (error == cudaSuccess && !side_stream->stream && (error = open_side_stream(card, side_stream)) != cudaSuccess)
        close_side_stream(side_stream);
    if (error != cudaSuccess)
        cudaGetLastError(); /* it would be reported again */
    return error == cudaSuccess;
}

/* Has the side stream's next run happen behind what is in the main stream. */
static bool wait_for_main(ls_card *card, ls_card_stream *side_stream)
{
    if (card->main_advanced && ls_card_good(card, cudaEventRecord(card->turned, card->main), "an event")) {
        card->main_advanced = false;
        card->turn++;
    }
    if (side_stream->turn != card->turn &&
        ls_card_good(card, cudaStreamWaitEvent(side_stream->stream, card->turned, 0), "waiting for the card's turn"))
        side_stream->turn = card->turn;
    return card->executor.status == LS_OK;
}

/* The libraries' handles have a stream, and cuBLAS's a workspace, which it forgets with the stream. Each side stream
 * has its own: with the library's, products in a captured run would allocate, and with one for several streams cuBLAS
 * would choose by what else is under way, and bits would change. */
bool ls_card_take_libraries(ls_card *card, int number)
{
    ls_card_stream *side_stream = &card->side_streams[number];
    if (card->libraries == number || !ls_card_uses_libraries(card))
        return true;
    const cudnnStatus_t dnn = cudnnSetStream(card->dnn, side_stream->stream);
    if (dnn != CUDNN_STATUS_SUCCESS)
        return ls_card_fail(card, LS_UNSUPPORTED, "starting cuDNN", cudnnGetErrorString(dnn));
    cublasStatus_t blas = cublasSetStream(card->blas, side_stream->stream);
    if (blas == CUBLAS_STATUS_SUCCESS)
        blas = cublasSetWorkspace(card->blas, side_stream->blas_workspace, LS_CARD_BLAS);
    if (blas != CUBLAS_STATUS_SUCCESS)
        return ls_card_fail(card, LS_UNSUPPORTED, "starting cuBLAS", cublasGetStatusString(blas));
    card->libraries = number;
    return true;
}

bool ls_card_enter_side(ls_card *card, int number)
{
    ls_card_stream *side_stream = &card->side_streams[number];
    if (number == 0)
        ls_card_main_waits(card);
    else if (!wait_for_main(card, side_stream))
        return false;
    if (!ls_card_take_libraries(card, number))
        return false;
    side_stream->used = number > 0;
    card->side_stream = number;
    card->stream = side_stream->stream;
    return true;
}

void ls_card_leave_side(ls_card *card)
{
    card->side_streams[card->side_stream].used =
        card->side_stream > 0; /* again, where results were waited for meanwhile */
    card->side_stream = 0;
    card->stream = card->main;
}

void ls_card_close_sides(ls_card *card)
{
    for (int i = 0; i < LS_CARD_STREAMS; i++)
        close_side_stream(&card->side_streams[i]);
    if (card->turned)
        cudaEventDestroy(card->turned);
}
