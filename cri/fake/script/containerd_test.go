package script_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
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
	"github.com/podwright/podwright/internal/testcri"
)

// roughly is how far rounding may take a replay from what was recorded.
const roughly = 5 * time.Millisecond

// pause is how long the life waits for the crash.
const pause = 2 * time.Second

// A small life of a pod on a real runtime, recorded, printed, parsed, and played
// by the fake: codes, states, exit codes and durations are the same.
func TestContainerdReplay(t *testing.T) {
	testcri.Each(t, func(t *testing.T, node testcri.Node) {
		uid, image := strings.ToLower(rand.Text()), node.Busybox
		recorded, text := onContainerd(t, node, uid)
		t.Logf("recorded on %s:\n%s", node.Variable, text)
		parsed, err := script.Parse(text)
		require.NoError(t, err)
		synctest.Test(t, func(t *testing.T) {
			rt, err := fake.New(fake.Config{Programs: parsed.Programs(nil)})
			require.NoError(t, err)
			defer func() { require.NoError(t, rt.Close()) }()
			p, err := script.New(script.Config{Script: parsed, Runtime: rt})
			require.NoError(t, err)
			same(t, recorded, podLife(t, p, p, image, uid))
			for _, r := range p.Unused() { // the stream has events of other pods, too
				require.True(t, strings.HasPrefix(r.Subject, script.AnyEvent) && !strings.HasSuffix(r.Of.Pod, uid[:8]), "unused: %s", r)
			}
		})
	})
}

// onContainerd leads the life on a real runtime.
func onContainerd(t *testing.T, node testcri.Node, uid string) (recorded []act, text string) {
	t.Helper()
	runtime, images := node.Runtime(t), node.Images(t)
	defer removeAll(t, runtime, uid)
	r, err := script.NewRecorder(runtime, images)
	require.NoError(t, err)
	recorded = podLife(t, r, r, node.Busybox, uid)
	return recorded, r.Script(time.Millisecond).String()
}

// removeAll removes the pods of a UID, whatever became of the test.
func removeAll(t *testing.T, runtime cri.RuntimeService, uid string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	list, err := runtime.ListPodSandbox(ctx, nil)
	require.NoError(t, err)
	for _, sandbox := range list {
		if sandbox.GetMetadata().GetUid() == uid {
			require.NoError(t, runtime.StopPodSandbox(ctx, sandbox.GetId()))
			require.NoError(t, runtime.RemovePodSandbox(ctx, sandbox.GetId()))
		}
	}
}

// act is a call and what came of it.
type act struct {
	call  string
	took  time.Duration
	code  codes.Code
	state string // of the container
	ran   time.Duration
	exit  int32
	why   string
}

// cast leads a pod's life and keeps what comes of it.
type cast struct {
	t      *testing.T
	r      cri.RuntimeService
	acts   []act
	stream *events
}

// events are what a stream brings of each container, by its ID.
type events struct {
	cancel context.CancelFunc
	ended  chan error

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each event
	of      map[string][]runtimeapi.ContainerEventType
}

func subscribe(ctx context.Context, r cri.RuntimeService) *events {
	ctx, cancel := context.WithCancel(ctx)
	e := &events{cancel: cancel, ended: make(chan error, 1), changed: make(chan struct{}), of: map[string][]runtimeapi.ContainerEventType{}}
	go func() {
		e.ended <- r.GetContainerEvents(ctx, func(event *runtimeapi.ContainerEventResponse) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.of[event.GetContainerId()] = append(e.of[event.GetContainerId()], event.GetContainerEventType())
			close(e.changed)
			e.changed = make(chan struct{})
		})
	}()
	return e
}

// upTo waits for the last event of a container and returns all of them, or how
// the stream ended before.
func (e *events) upTo(id string) ([]runtimeapi.ContainerEventType, codes.Code) {
	for {
		e.mu.Lock()
		seen, changed := slices.Clone(e.of[id]), e.changed
		e.mu.Unlock()
		if n := len(seen); n > 0 && seen[n-1] == deleted {
			return seen, codes.OK
		}
		select {
		case <-changed:
		case err := <-e.ended:
			e.ended <- err
			return nil, status.Code(err)
		}
	}
}

func (c *cast) do(call string, do func() error) {
	c.t.Helper()
	start := time.Now()
	err := do()
	c.acts = append(c.acts, act{call: call, took: time.Since(start), code: status.Code(err)})
}

// look asks for the state of a container.
func (c *cast) look(name, id string) {
	c.t.Helper()
	c.do("status of "+name, func() error {
		response, err := c.r.ContainerStatus(c.t.Context(), id, false)
		s := response.GetStatus()
		c.acts = append(c.acts, act{
			call: "state of " + name, state: s.GetState().String(), exit: s.GetExitCode(), why: s.GetReason(),
			ran: time.Duration(max(0, s.GetFinishedAt()-s.GetStartedAt())),
		})
		return err
	})
}

func podLife(t *testing.T, r cri.RuntimeService, images cri.ImageService, image, uid string) []act {
	t.Helper()
	ctx, begin := t.Context(), time.Now()
	c := &cast{t: t, r: r, stream: subscribe(ctx, r)}
	defer func() {
		c.stream.cancel()
		<-c.stream.ended
	}()
	pod := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "script-" + uid[:8], Namespace: "script", Uid: uid},
		Linux:    &runtimeapi.LinuxPodSandboxConfig{},
	}
	c.do("pull", func() error {
		_, err := images.PullImage(ctx, &runtimeapi.ImageSpec{Image: image}, nil, pod)
		return err
	})
	c.do("pull nothing", func() error {
		_, err := images.PullImage(ctx, &runtimeapi.ImageSpec{Image: image + "-missing"}, nil, pod)
		return err
	})
	var sandbox string
	c.do("sandbox", func() (err error) {
		sandbox, err = r.RunPodSandbox(ctx, pod, "")
		return err
	})
	ids := map[string]string{}
	for _, program := range []struct{ name, command string }{
		{"crash", "sleep 1; exit 3"},
		{"polite", `trap "sleep 0.5; exit 7" TERM; while true; do sleep 0.05; done`},
		{"stubborn", `trap "" TERM; while true; do sleep 0.05; done`},
		{"victim", "sleep 1000"},
		{"missing", ""},
	} {
		config := &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: program.name},
			Image:    &runtimeapi.ImageSpec{Image: image},
			Command:  []string{"sh", "-c", program.command},
			Linux:    &runtimeapi.LinuxContainerConfig{},
		}
		if program.command == "" {
			config.Command = []string{"/no/such/program"}
		}
		c.do("create "+program.name, func() (err error) {
			ids[program.name], err = r.CreateContainer(ctx, sandbox, config, pod)
			return err
		})
		c.do("start "+program.name, func() error { return r.StartContainer(ctx, ids[program.name]) })
	}
	c.end(sandbox, ids)
	c.acts = append(c.acts, act{call: "all", took: time.Since(begin)})
	ids["sandbox"] = sandbox
	for _, name := range []string{"crash", "polite", "stubborn", "victim", "sandbox"} {
		types, code := c.stream.upTo(ids[name])
		c.acts = append(c.acts, act{call: "events of " + name, why: fmt.Sprint(types), code: code})
	}
	return c.acts
}

// end lets a container crash, stops two with grace, and one with its sandbox.
func (c *cast) end(sandbox string, ids map[string]string) {
	c.t.Helper()
	ctx := c.t.Context()
	c.do("exec", func() error {
		_, _, err := c.r.ExecSync(ctx, ids["polite"], []string{"sh", "-c", "echo no; exit 4"}, 0)
		var exited *cri.ExitError
		require.ErrorAs(c.t, err, &exited)
		c.acts = append(c.acts, act{call: "exec exited", exit: exited.Code, why: string(exited.Stdout)})
		return nil
	})
	<-time.After(pause)
	c.look("crash", ids["crash"])
	c.look("polite", ids["polite"])
	c.do("stop crash", func() error { return c.r.StopContainer(ctx, ids["crash"], 2*time.Second) })
	c.do("stop polite", func() error { return c.r.StopContainer(ctx, ids["polite"], 10*time.Second) })
	c.do("stop stubborn", func() error { return c.r.StopContainer(ctx, ids["stubborn"], time.Second) })
	c.do("stop sandbox", func() error { return c.r.StopPodSandbox(ctx, sandbox) })
	for _, name := range []string{"crash", "polite", "stubborn", "victim", "missing"} {
		c.look(name, ids[name])
		c.do("remove "+name, func() error { return c.r.RemoveContainer(ctx, ids[name]) })
		c.do("status of no "+name, func() error { _, err := c.r.ContainerStatus(ctx, ids[name], false); return err })
	}
	c.do("remove sandbox", func() error { return c.r.RemovePodSandbox(ctx, sandbox) })
}

// same compares a replay with what was recorded. How long a container ran until it
// was stopped also depends on what passed between the calls and within its start.
func same(t *testing.T, recorded, replayed []act) {
	t.Helper()
	require.Len(t, replayed, len(recorded))
	took, between := map[string]time.Duration{}, -pause
	for _, a := range recorded {
		took[a.call] = a.took
		between -= a.took
	}
	between += 2 * took["all"]
	t.Logf("%v passed between the calls", between)
	for i, want := range recorded {
		got := replayed[i]
		t.Logf("%-22s %-13s %3d %-22q took %v, %v; ran %v, %v", want.call, want.code, want.exit, want.why, want.took, got.took, want.ran, got.ran)
		if want.call == "all" {
			continue
		}
		require.InDelta(t, want.took, got.took, float64(roughly), "%s took", want.call)
		if want.why != "StartError" { // whose times are not those of a run
			name := strings.TrimPrefix(want.call, "state of ")
			require.InDelta(t, want.ran, got.ran, float64(10*roughly+between+took["start "+name]), "%s ran", name)
		}
		want.took, want.ran, got.took, got.ran = 0, 0, 0, 0
		require.Equal(t, want, got)
	}
}
