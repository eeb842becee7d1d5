package podsyncer

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/internal/testkit/testagent"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
	"github.com/podwright/podwright/volume/podfolder"
)

// world is a runtime and a node's folders, on which one agent after the other
// runs: what a crash of the agent leaves is there for the next.
type world struct {
	*testagent.Node
	t       *testing.T
	dir     string
	runtime *fake.Runtime
	// calls is the runtime as agents have it.
	calls *testagent.Runtime

	desired []*v1.Pod
	// networkReady, if not nil, tells whether pods can have a network.
	span         func(context.Context, string, ...slog.Attr) (context.Context, func(error))
	networkReady func() error
	// elsewhere, if not nil, knows pods of which nothing is kept.
	elsewhere func(context.Context, *v1.Pod) *v1.PodStatus
	// sinks are told statuses, besides the checkpoint.
	sinks []writer.NamedSink
	// stages are what pods hold besides their folders.
	stages []stages.Entry
	// refused are not admitted.
	refused []types.UID
	// hostIPs, if not nil, are the addresses of the node.
	hostIPs func() []string
	events  events
	// unsaved: only syncs write to the disk what is known of pods.
	unsaved bool
	// actuated outlives agents.
	actuated resize.Store
	// diskTakes is how long each access to a saved status takes.
	diskTakes time.Duration
	agent     *node
	stop      func()
}

// inWorld runs a test in a bubble, with a runtime.
func inWorld(t *testing.T, cfg fake.Config, test func(*world)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n, rt := testagent.NewNode(t, cfg)
		w := &world{Node: n, t: t, dir: dir, runtime: rt, calls: testagent.NewRuntime(rt), actuated: resize.NewMemory()}
		defer func() {
			if w.stop != nil {
				w.stop()
			}
			n.Close()
		}()
		test(w)
	})
}

// events are those of all agents.
type events struct {
	mu  sync.Mutex
	all []event
}

type event struct {
	uid                   types.UID
	kind, reason, message string
	at                    time.Time
}

func (e *events) add(ref v1.ObjectReference, kind, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event{ref.UID, kind, reason, message, time.Now()})
}

// of returns the events of a pod with a reason, or all of its warnings.
func (e *events) of(uid types.UID, reason string) (out []event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, found := range e.all {
		if found.uid == uid && (found.reason == reason || reason == "" && found.kind == v1.EventTypeWarning) {
			out = append(out, found)
		}
	}
	return out
}

func (w *world) logs() string  { return filepath.Join(w.dir, "logs") }
func (w *world) links() string { return filepath.Join(w.dir, "links") }

// node is an agent: what podsyncer is put together with.
type node struct {
	*Syncer

	folders *podfolder.Folders
	merger  *podsource.Merger
}

// statusFile is where the status of a pod is saved.
func (w *world) statusFile(uid types.UID) string {
	return filepath.Join(w.dir, "root", "pods", string(uid), "status.json")
}

func (w *world) store() *checkpoint.Store {
	return must(checkpoint.New(checkpoint.Config{File: func(uid types.UID) string {
		time.Sleep(w.diskTakes)
		return w.statusFile(uid)
	}}))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *world) newNode() *node {
	n := &node{}
	cfg := w.config(n)
	n.Syncer = must(New(cfg))
	return n
}

// config returns the configuration of the next agent, and sets the fields of n for it.
func (w *world) config(n *node) Config {
	runtime := w.calls
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(w.t.Output(), nil))
	}
	n.folders = must(podfolder.New(podfolder.Config{Root: filepath.Join(w.dir, "root", "pods")}))
	n.merger = must(podsource.NewMerger(podsource.MergerConfig{}))
	return Config{
		Pods: pods.Config{
			Runtime: runtime, RuntimeName: "fake", LogRoot: w.logs(), LinkDir: w.links(), PodDir: n.folders.Pod,
			Images:   must(images.New(images.Config{Service: w.runtime})),
			Actuated: w.actuated,
		},
		Checkpoint: w.store(), Statuses: writer.Config{Sinks: w.sinks}, Logger: log, Event: w.events.add, NetworkReady: w.networkReady, HostIPs: w.hostIPs, Span: w.span, Elsewhere: w.elsewhere,
		Probes: probe.Config{Probers: map[probe.Handler]probe.Prober{probe.Exec: must(exec.New(exec.Config{Runtime: runtime}))}},
		Stages: must(stages.New(stages.Config{Stages: append([]stages.Entry{{Name: "folder", Release: stages.Gone, Stage: n.folders}}, w.stages...)})),
		Loop:   syncloop.Config{Pods: n.merger},
		Handler: syncloop.HandlerConfig{Admit: syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
			if slices.Contains(w.refused, pod.UID) {
				return syncloop.Reject("Refused", "not here")
			}
			return nil
		})},
	}
}

// start starts an agent. Its pods come from set.
func (w *world) start() {
	n := w.newNode()
	if w.unsaved {
		n.write = func(ctx context.Context) error { <-ctx.Done(); return nil }
	}
	w.agent = n
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	require.NoError(w.t, n.merger.Set("file", w.desired, n.Loop().Emit))
	w.stop = func() {
		cancel()
		require.NoError(w.t, <-done)
		w.stop = nil
	}
}

// run starts an agent with pods and lets time pass.
func (w *world) run(d time.Duration, pods ...*v1.Pod) {
	w.set(pods...)
	w.start()
	w.Sleep(d)
}

// end takes all pods away, of which nothing may be left.
func (w *world) end(d time.Duration) {
	w.t.Helper()
	w.set()
	w.Sleep(d)
	w.requireNothingLeft()
}

// at does something before the n-th call of a kind, or before each if n is 0. An error
// takes the place of the call.
func (w *world) at(call string, n int32, before func(context.Context) error) {
	var calls atomic.Int32
	w.calls.Intercept(func(ctx context.Context, name string, do func() error) error {
		if name != call || calls.Add(1) != n && n > 0 {
			return do()
		}
		if err := before(ctx); err != nil {
			return err
		}
		return do()
	})
}

// set replaces what is desired.
func (w *world) set(pods ...*v1.Pod) {
	w.desired = pods
	if w.agent != nil {
		require.NoError(w.t, w.agent.merger.Set("file", pods, w.agent.Loop().Emit))
	}
}

// requireNothingLeft looks for traces of pods.
func (w *world) requireNothingLeft() {
	w.t.Helper()
	require.Empty(w.t, w.Containers(), "containers")
	require.Empty(w.t, w.Sandboxes(), "sandboxes")
	for _, dir := range []string{filepath.Join(w.dir, "root", "pods"), w.logs(), w.links()} {
		entries, err := os.ReadDir(dir)
		if !errors.Is(err, os.ErrNotExist) {
			require.NoError(w.t, err)
		}
		require.Empty(w.t, entries, dir)
	}
	require.Empty(w.t, w.agent.statuses.Pods(), "statuses")
	require.Empty(w.t, w.agent.Remembered(), "pods in memory")
	require.Empty(w.t, w.agent.observer.changing, "hints held back")
}

// newPod is a pod, asking a probe that is executed each second and counts after so many failures.
var newPod, asking = testagent.Pod, testagent.ExecProbe

// crash is kill -9 as far as the runtime can tell.
func (w *world) crash() {
	w.stop()
	w.calls.Intercept(nil)
}

func (w *world) condition(uid types.UID, t v1.PodConditionType) v1.ConditionStatus {
	return testagent.Condition(w.agent.statuses.Get(uid), t)
}

func (w *world) container(uid types.UID, name string) v1.ContainerStatus {
	w.t.Helper()
	return testagent.Container(w.t, w.agent.statuses.Get(uid), name)
}

// counting counts how often the program was started.
func counting(n *atomic.Int32, program fake.Program) fake.Resolver {
	return fake.Always(func(ctx context.Context, p *fake.Process) int {
		n.Add(1)
		return program(ctx, p)
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
