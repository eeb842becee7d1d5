package cri_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/script"
)

const (
	soakTimeout = 5 * time.Second // T; scripts hang for up to 30s
	soakWorkers = 8
	soakCalls   = 40 // of each worker
)

// Eight callers and a reader of events on a runtime that fails at random. No call
// takes longer than its deadline, each failure is of a kind that is documented,
// and nothing is left behind. A failure prints the script that makes it.
func TestSoak(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 5
	}
	calls := slices.DeleteFunc(script.Calls(), func(c string) bool { return c == "Version" || c == "ImageFsInfo" }) // of dialling
	ends := map[codes.Code]int{}                                                                                    // how calls have ended
	for seed := range seeds {
		text := script.Random(seed, script.RandomConfig{
			Rules: 15, Calls: calls, Pods: []string{"pod-0", "pod-1"}, Containers: []string{"app"}, MaxDelay: 30 * time.Second, MaxCount: 60,
			Events: true, Runs: true, Restarts: true,
		})
		synctest.Test(t, func(t *testing.T) { soak(t, seed, text, ends) })
	}
	for _, code := range []codes.Code{codes.OK, codes.DeadlineExceeded, codes.Unavailable, codes.Internal} {
		require.NotZero(t, ends[code], "no call has ended with %v: %v", code, ends)
	}
}

func soak(t *testing.T, seed uint64, play script.Script, ends map[codes.Code]int) {
	scripted := play.Programs(nil)
	programs := func(ctx context.Context, p *fake.Process) (fake.Program, error) {
		if p.Pod.Name == "web" { // the node's own
			return fake.SleepUntilStopped, nil
		}
		return scripted(ctx, p)
	}
	n := newServer(t, nodeConfig{
		fake: fake.Config{Programs: programs}, script: play.String(),
		client: cri.ClientConfig{RequestTimeout: soakTimeout, StreamLists: seed%2 == 1},
	})
	if n.connect(t) != nil { // dialling may be the call that restarts the runtime
		require.NoError(t, n.connect(t))
	}
	// Everything ends long before this; a call that is still there then is told.
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	var working, reading sync.WaitGroup
	var workers []*worker
	for i := range soakWorkers {
		w := &worker{n: n, rand: rand.New(rand.NewPCG(seed, uint64(i))), pod: fmt.Sprint("pod-", i), ends: map[codes.Code]int{}}
		workers = append(workers, w)
		working.Go(func() {
			for range soakCalls {
				w.step(ctx)
			}
		})
	}
	reader := &worker{n: n}
	readerCtx, stop := context.WithCancel(ctx)
	defer stop()
	reading.Go(func() { reader.readEvents(readerCtx) })
	working.Wait()
	stop()
	reading.Wait()
	for _, w := range append(workers, reader) {
		for code, count := range w.ends {
			ends[code] += count
		}
		require.Empty(t, w.problems, "replay with this script:\n%s", play)
	}
}

// worker makes calls about a pod of its own.
type worker struct {
	n        *node
	rand     *rand.Rand
	pod      string
	attempt  uint32
	sandbox  string
	config   *runtimeapi.PodSandboxConfig
	app      string
	problems []string
	ends     map[codes.Code]int // how calls have ended
}

// step makes one call that makes sense, or at least could.
func (w *worker) step(ctx context.Context) {
	steps := []func(context.Context){w.list, w.status, w.start, w.exec, w.image, w.info}
	switch {
	case w.sandbox == "":
		steps = []func(context.Context){w.run, w.run, w.list, w.info}
	case w.app == "":
		steps = []func(context.Context){w.create, w.create, w.list, w.image, w.removeSandbox}
	case w.rand.IntN(5) == 0:
		steps = []func(context.Context){w.stop, w.removeApp, w.removeSandbox}
	}
	steps[w.rand.IntN(len(steps))](ctx)
}

// do makes a call and judges how it ended.
func (w *worker) do(ctx context.Context, call string, limit time.Duration, fn func(context.Context) error) error {
	begin := time.Now()
	err := fn(ctx)
	took := time.Since(begin)
	w.ends[status.Code(err)]++
	if problem := verdict(call, err, took, limit); problem != "" {
		w.problems = append(w.problems, fmt.Sprintf("%s after %v: %s: %v", call, took, problem, err))
	}
	return err
}

// verdict tells what is wrong with the end of a call, "" when nothing is.
func verdict(call string, err error, took, limit time.Duration) string {
	var exit *cri.ExitError
	var e *cri.CallError
	switch {
	case took > limit:
		return fmt.Sprintf("took longer than %v", limit)
	case err == nil:
		return ""
	case errors.As(err, &exit):
		if call != "ExecSync" {
			return "an exit code"
		}
		return ""
	case !errors.As(err, &e) || e.Call != call || e.Endpoint != "unix://"+endpoint:
		return "does not say what failed"
	case !slices.Contains(documented(), status.Code(err)):
		return "an odd code"
	case errors.Is(err, context.Canceled) || errors.Is(err, cri.ErrClosed):
		return "nobody gave up"
	case errors.Is(err, cri.ErrReplyTooLarge) || errors.Is(err, cri.ErrRequestTooLarge):
		return "nothing is large"
	case errors.Is(err, context.DeadlineExceeded) != (status.Code(err) == codes.DeadlineExceeded):
		return "not clear whether it is a deadline"
	case e.Timeout != 0 && (e.Timeout != limit || took != limit || status.Code(err) != codes.DeadlineExceeded):
		return "not the client's deadline"
	case e.Timeout == 0 && took == limit && status.Code(err) == codes.DeadlineExceeded && call != "PullImage":
		return "not clear whose deadline"
	}
	return ""
}

// documented are the codes of a fake, and of a random script.
func documented() []codes.Code {
	return []codes.Code{
		codes.NotFound, codes.AlreadyExists, codes.InvalidArgument, codes.FailedPrecondition, codes.Unimplemented,
		codes.Unknown, codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.ResourceExhausted,
	}
}

func (w *worker) run(ctx context.Context) {
	w.attempt++ // what became of the one before may not be known
	w.config = podConfig(w.pod)
	w.config.Metadata.Attempt = w.attempt
	_ = w.do(ctx, "RunPodSandbox", 2*soakTimeout, func(ctx context.Context) (err error) {
		w.sandbox, err = w.n.runtime.RunPodSandbox(ctx, w.config, "")
		return sameOrError(w.sandbox != "", err)
	})
}

// sameOrError makes a lie of a success that is none.
func sameOrError(ok bool, err error) error {
	if ok == (err == nil) {
		return err
	}
	return fmt.Errorf("result and error do not fit: %w", err)
}

func (w *worker) create(ctx context.Context) {
	w.attempt++
	config := containerConfig("app")
	config.Metadata.Attempt = w.attempt
	_ = w.do(ctx, "CreateContainer", soakTimeout, func(ctx context.Context) (err error) {
		w.app, err = w.n.runtime.CreateContainer(ctx, w.sandbox, config, w.config)
		return sameOrError(w.app != "", err)
	})
}

func (w *worker) start(ctx context.Context) {
	_ = w.do(ctx, "StartContainer", soakTimeout, func(ctx context.Context) error { return w.n.runtime.StartContainer(ctx, w.app) })
}

func (w *worker) stop(ctx context.Context) {
	grace := time.Duration(w.rand.IntN(10)) * time.Second
	_ = w.do(ctx, "StopContainer", soakTimeout+grace, func(ctx context.Context) error {
		return w.n.runtime.StopContainer(ctx, w.app, grace)
	})
}

func (w *worker) removeApp(ctx context.Context) {
	err := w.do(ctx, "RemoveContainer", soakTimeout, func(ctx context.Context) error {
		return w.n.runtime.RemoveContainer(ctx, w.app)
	})
	if err == nil || cri.IsNotFound(err) {
		w.app = ""
	}
}

func (w *worker) removeSandbox(ctx context.Context) {
	_ = w.do(ctx, "StopPodSandbox", soakTimeout, func(ctx context.Context) error { return w.n.runtime.StopPodSandbox(ctx, w.sandbox) })
	err := w.do(ctx, "RemovePodSandbox", soakTimeout, func(ctx context.Context) error {
		return w.n.runtime.RemovePodSandbox(ctx, w.sandbox)
	})
	if err == nil || cri.IsNotFound(err) {
		w.sandbox, w.app = "", ""
	}
}

func (w *worker) exec(ctx context.Context) {
	_ = w.do(ctx, "ExecSync", soakTimeout+time.Second, func(ctx context.Context) error {
		_, _, err := w.n.runtime.ExecSync(ctx, w.app, []string{"true"}, time.Second)
		return err
	})
}

func (w *worker) status(ctx context.Context) {
	_ = w.do(ctx, "ContainerStatus", soakTimeout, func(ctx context.Context) error {
		reply, err := w.n.runtime.ContainerStatus(ctx, w.app, false)
		return sameOrError(reply.GetStatus().GetId() == w.app, err)
	})
	_ = w.do(ctx, "PodSandboxStatus", soakTimeout, func(ctx context.Context) error {
		reply, err := w.n.runtime.PodSandboxStatus(ctx, w.sandbox, false)
		return sameOrError(reply.GetStatus().GetId() == w.sandbox, err)
	})
}

func (w *worker) list(ctx context.Context) {
	_ = w.do(ctx, "ListPodSandbox", soakTimeout, func(ctx context.Context) error {
		sandboxes, err := w.n.runtime.ListPodSandbox(ctx, nil)
		return sameOrError(len(sandboxes) > 0, err) // the node's own pod is always there
	})
	_ = w.do(ctx, "ListContainers", soakTimeout, func(ctx context.Context) error {
		containers, err := w.n.runtime.ListContainers(ctx, nil)
		return sameOrError(len(containers) > 0, err)
	})
	_ = w.do(ctx, "ListContainerStats", soakTimeout, func(ctx context.Context) error {
		_, err := w.n.runtime.ListContainerStats(ctx, nil)
		return err
	})
}

func (w *worker) image(ctx context.Context) {
	const limit = 20 * time.Second // the caller's own
	_ = w.do(ctx, "PullImage", limit, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ref, err := w.n.images.PullImage(ctx, imageSpec(), nil, nil)
		return sameOrError(ref != "", err)
	})
	_ = w.do(ctx, "ImageStatus", soakTimeout, func(ctx context.Context) error {
		_, err := w.n.images.ImageStatus(ctx, imageSpec(), false)
		return err
	})
}

func (w *worker) info(ctx context.Context) {
	_ = w.do(ctx, "Status", soakTimeout, func(ctx context.Context) error { _, err := w.n.runtime.Status(ctx, false); return err })
	_ = w.do(ctx, "Version", soakTimeout, func(ctx context.Context) error { _, err := w.n.runtime.Version(ctx); return err })
	_ = w.do(ctx, "ListImages", soakTimeout, func(ctx context.Context) error { _, err := w.n.images.ListImages(ctx, nil); return err })
}

// readEvents reads events until ctx ends, on one stream after the other.
func (w *worker) readEvents(ctx context.Context) {
	for ctx.Err() == nil {
		begin := time.Now()
		err := w.n.runtime.GetContainerEvents(ctx, func(e *runtimeapi.ContainerEventResponse) {
			if e.GetContainerId() == "" {
				w.problems = append(w.problems, "an event without a container")
			}
		})
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return
		}
		// A stream that breaks just before ctx ends is one that broke.
		problem := verdict("GetContainerEvents", err, 0, time.Hour)
		if err == nil {
			problem = "a stream without an end"
		}
		if problem != "" {
			w.problems = append(w.problems, fmt.Sprintf("GetContainerEvents after %v: %s: %v", time.Since(begin), problem, err))
		}
		time.Sleep(time.Second)
	}
}
