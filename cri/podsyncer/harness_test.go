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

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/request"
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

// harness is a runtime with a node's folders. One agent after another runs on it, and state that a
// crash leaves stays for the next one.
type harness struct {
	*testagent.Node
	t       *testing.T
	dir     string
	runtime *fake.Runtime
	// calls is the agents' view of the runtime.
	calls *testagent.Runtime

	// owner owns the pods of the agents. Default: "test".
	owner cri.Owner
	// adopt is Config.AdoptUnlabelled.
	adopt        bool
	desired      []*v1.Pod
	span         func(context.Context, string, ...slog.Attr) (context.Context, func(error))
	networkReady func() error
	elsewhere    func(context.Context, *v1.Pod) *v1.PodStatus
	// sinks receive statuses, besides the checkpoint.
	sinks []writer.NamedSink
	// stages are added to the pods' folders.
	stages []stages.Entry
	// refused are the UIDs that admission refuses.
	refused []types.UID
	hostIPs func() []string
	events  events
	// unsaved stops the writer: only syncs save the state of pods.
	unsaved bool
	// actuated outlives agents.
	actuated resize.Store
	// diskTakes is the duration of each access to a saved status.
	diskTakes time.Duration
	agent     *node
	stop      func()
}

// inHarness runs a test in a bubble, with a runtime.
func inHarness(t *testing.T, cfg fake.Config, test func(*harness)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n, rt := testagent.NewNode(t, cfg)
		w := &harness{Node: n, t: t, dir: dir, runtime: rt, calls: testagent.NewRuntime(rt), actuated: resize.NewMemory(), owner: cri.Owner{Name: "test"}}
		defer func() {
			if w.stop != nil {
				w.stop()
			}
			n.Close()
		}()
		test(w)
	})
}

// beside returns a harness for agents with another owner and folders of their own on the same
// runtime. Only the logs are in the same folder.
func (w *harness) beside(owner cri.Owner) *harness {
	dir := w.t.TempDir()
	require.NoError(w.t, os.Symlink(w.logs(), filepath.Join(dir, "logs")))
	return &harness{Node: w.Node, t: w.t, dir: dir, runtime: w.runtime, calls: w.calls, actuated: resize.NewMemory(), owner: owner}
}

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

func (w *harness) logs() string  { return filepath.Join(w.dir, "logs") }
func (w *harness) links() string { return filepath.Join(w.dir, "links") }

type node struct {
	*Syncer

	folders *podfolder.Folders
	merger  *podsource.Merger
}

func (w *harness) statusFile(uid types.UID) string {
	return filepath.Join(w.dir, "root", "pods", string(uid), "status.json")
}

func (w *harness) store() *checkpoint.Store {
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

func (w *harness) newNode() *node {
	n := &node{}
	cfg := w.config(n)
	n.Syncer = must(New(cfg))
	return n
}

func (w *harness) config(n *node) Config {
	runtime := w.calls
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(w.t.Output(), nil))
	}
	n.folders = must(podfolder.New(podfolder.Config{Root: filepath.Join(w.dir, "root", "pods")}))
	n.merger = must(podsource.NewMerger(podsource.MergerConfig{}))
	return Config{
		Pods: pods.Config{
			Runtime: runtime, RuntimeName: "fake", Owner: w.owner, LogRoot: w.logs(), LinkDir: w.links(), PodDir: n.folders.Pod,
			Images:   must(images.New(images.Config{Service: w.runtime})),
			Actuated: w.actuated,
			Inputs:   request.Inputs{HandlerFeatures: func(*v1.Pod) request.HandlerFeatures { return request.HandlerFeatures{RecursiveReadOnlyMounts: true} }},
		},
		AdoptUnlabelled: w.adopt,
		Checkpoint:      w.store(), Statuses: writer.Config{Sinks: w.sinks}, Logger: log, Event: w.events.add, NetworkReady: w.networkReady, HostIPs: w.hostIPs, Span: w.span, Elsewhere: w.elsewhere,
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

// start starts an agent with the pods of set.
func (w *harness) start() {
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

func (w *harness) run(d time.Duration, pods ...*v1.Pod) {
	w.set(pods...)
	w.start()
	w.Sleep(d)
}

// end removes all desired pods and requires that no traces remain.
func (w *harness) end(d time.Duration) {
	w.t.Helper()
	w.set()
	w.Sleep(d)
	w.requireNothingLeft()
}

// at calls before ahead of the n-th call of a kind, or ahead of each call if n is 0. An error
// replaces the call.
func (w *harness) at(call string, n int32, before func(context.Context) error) {
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

func (w *harness) set(pods ...*v1.Pod) {
	w.desired = pods
	if w.agent != nil {
		require.NoError(w.t, w.agent.merger.Set("file", pods, w.agent.Loop().Emit))
	}
}

func (w *harness) requireNothingLeft() {
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

// newPod returns a pod; asking returns an exec probe with a period of 1 s and a failure threshold.
var newPod, asking = testagent.Pod, testagent.ExecProbe

// crash is kill -9 from the runtime's point of view.
func (w *harness) crash() {
	w.stop()
	w.calls.Intercept(nil)
}

func (w *harness) condition(uid types.UID, t v1.PodConditionType) v1.ConditionStatus {
	return testagent.Condition(w.agent.statuses.Get(uid), t)
}

func (w *harness) container(uid types.UID, name string) v1.ContainerStatus {
	w.t.Helper()
	return testagent.Container(w.t, w.agent.statuses.Get(uid), name)
}

// counting counts the starts of a program.
func counting(n *atomic.Int32, program fake.Program) fake.Resolver {
	return fake.Always(func(ctx context.Context, p *fake.Process) int {
		n.Add(1)
		return program(ctx, p)
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
