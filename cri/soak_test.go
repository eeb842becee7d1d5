package cri

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	soakTimeout = 5 * time.Second
	soakWorkers = 8
	soakCalls   = 40 // of each worker
)

// Eight callers on a runtime that fails at random. No call takes longer than its
// deadline, each failure is of a kind that is documented, and no goroutine is left
// behind.
func TestSoak(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 5
	}
	ends := map[codes.Code]int{} // how calls have ended
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { soak(t, seed, ends) })
	}
	for _, code := range []codes.Code{codes.OK, codes.DeadlineExceeded, codes.Unavailable, codes.Internal} {
		require.NotZero(t, ends[code], "no call has ended with %v: %v", code, ends)
	}
}

func soak(t *testing.T, seed uint64, ends map[codes.Code]int) {
	s := newGoodScript()
	cfg := s.inMemory(t)
	cfg.RequestTimeout, cfg.StreamLists = soakTimeout, seed%2 == 1
	n := dialBoth(t, cfg)
	s.stop()
	f := faults{rand: rand.New(rand.NewPCG(seed, 0))}
	s.options = append(s.options, grpc.ChainUnaryInterceptor(f.intercept))
	s.start()
	var mu sync.Mutex
	var working sync.WaitGroup
	for worker := range uint64(soakWorkers) {
		random := rand.New(rand.NewPCG(seed, worker+1))
		working.Go(func() {
			for range soakCalls {
				c := everyCall[random.IntN(len(everyCall))]
				limit := c.limit(soakTimeout)
				if limit == 0 {
					limit = time.Hour
				}
				begin := time.Now()
				err := n.make(t.Context(), c)
				problem := verdict(c, err, time.Since(begin), limit)
				mu.Lock()
				ends[status.Code(err)]++
				require.Empty(t, problem, "seed %d: %s after %v: %v", seed, c.name, time.Since(begin), err)
				mu.Unlock()
			}
		})
	}
	for range 5 { // restarts
		time.Sleep(20 * time.Second)
		s.stop()
		s.start()
	}
	working.Wait()
}

// faults makes calls hang, wait and fail at random.
type faults struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (f *faults) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	f.mu.Lock()
	fault, wait := f.rand.IntN(8), time.Duration(f.rand.IntN(30_000))*time.Millisecond
	f.mu.Unlock()
	switch fault {
	case 0, 1:
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	case 2:
		return nil, status.Error(codes.Internal, "broken")
	case 3:
		return nil, status.Error(codes.Unavailable, "busy")
	case 4:
		return nil, status.Error(codes.DeadlineExceeded, "the runtime's own")
	}
	return handler(ctx, request)
}

// verdict returns the problem with the end of a call, or "".
func verdict(c testCall, err error, took, limit time.Duration) string {
	var e *CallError
	switch {
	case took > limit:
		return fmt.Sprintf("took longer than %v", limit)
	case err == nil:
		return ""
	case !errors.As(err, &e) || e.Call != c.name || e.Object != c.object:
		return "does not name what failed"
	case status.Code(err) != codes.Internal && status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded:
		return "an odd code"
	case errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed):
		return "no caller gave up"
	case errors.Is(err, ErrReplyTooLarge) || errors.Is(err, ErrRequestTooLarge):
		return "nothing is large"
	case errors.Is(err, context.DeadlineExceeded) != (status.Code(err) == codes.DeadlineExceeded):
		return "not clear whether it is a deadline"
	case e.Timeout != 0 && (e.Timeout != limit || took != limit || status.Code(err) != codes.DeadlineExceeded):
		return "not the client's deadline"
	case e.Timeout == 0 && took == limit && status.Code(err) == codes.DeadlineExceeded:
		return "not clear whose deadline"
	}
	return ""
}
