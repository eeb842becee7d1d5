// Command edge is a node agent to copy from: it runs the pods of a folder on a
// container runtime, probes them, restarts what fails, and shows their statuses in
// a file and over HTTP. There is no API server. It may be killed, updated or
// rebooted at any time: what runs goes on, and what should run is started.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
	"github.com/podwright/podwright/probe/grpc"
	"github.com/podwright/podwright/probe/httpget"
	"github.com/podwright/podwright/probe/tcpsocket"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/filesink"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

func main() {
	endpoint := flag.String("runtime", "unix:///run/containerd/containerd.sock", "the container runtime")
	manifests := flag.String("manifests", "/etc/edge/manifests", "folder with a pod per file")
	root := flag.String("root", "/var/lib/edge", "absolute folder for what the agent keeps")
	listen := flag.String("listen", "127.0.0.1:8420", "where statuses are served")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// The parts, from the runtime upwards.
	a := &agent{root: *root}
	must(0, os.MkdirAll(a.dir(""), 0o750))
	runtime := must(cri.DialRuntime(ctx, cri.ClientConfig{Endpoint: *endpoint}))
	a.pods = must(pods.New(pods.Config{Runtime: runtime, RuntimeName: runtime.Name(), Images: must(images.New(images.Config{Service: must(cri.DialImages(ctx, cri.ClientConfig{Endpoint: *endpoint})), Event: event})),
		LogRoot: filepath.Join(*root, "logs"), PodDir: a.dir, Inputs: request.Inputs{Volumes: request.HostPaths{}}, Event: event}))
	a.garbage = must(garbage.New(garbage.Config{Runtime: runtime, Pods: a.pods}))
	a.pleg = must(pleg.New(pleg.Config{Runtime: must(observe.New(observe.Config{Runtime: runtime, RuntimeName: runtime.Name()})), OnEvent: func(e pleg.Event) { a.dirty(e.UID) }}))
	a.shown = must(filesink.New(filesink.Config{Path: filepath.Join(*root, "status.json"), Logger: slog.Default()}))
	a.statuses = must(writer.New(writer.Config{Sinks: []writer.NamedSink{{Name: "file", Sink: a.shown}}, Logger: slog.Default()}))
	a.probes = must(probe.New(probe.Config{Status: a.statuses.Get, Event: event,
		Changed: func(c probe.Change) { a.statuses.SetProbed(c); a.dirty(c.UID) }, // shown at once; the next sync restarts what failed
		Probers: map[probe.Handler]probe.Prober{probe.Exec: must(exec.New(exec.Config{Runtime: runtime})), probe.HTTPGet: must(httpget.New(httpget.Config{})),
			probe.TCPSocket: tcpsocket.New(tcpsocket.Config{}), probe.GRPC: must(grpc.New(grpc.Config{}))}}))
	a.workers = must(podworkers.New(podworkers.Config{Syncer: a, Resync: a.dirty, Logger: slog.Default()}))
	merger := must(podsource.NewMerger(podsource.MergerConfig{Event: event}))
	files := must(podsource.NewFileSource(podsource.FileConfig{Path: *manifests, Merger: merger, Logger: slog.Default(),
		Decoder: podsource.Decoder{NodeName: "edge", Check: func(p *v1.Pod) []error { return append(pods.Unsupported(p), probe.Validate(p)...) }}}))
	handler := must(syncloop.NewHandler(syncloop.HandlerConfig{Workers: a.workers, Sources: merger, RuntimePods: a.orphans, FinalCleaners: []syncloop.Cleaner{{Name: "leftovers", Clean: a.clean}}}))
	a.loop = must(syncloop.New(syncloop.Config{Handler: handler, Pods: merger, Health: a.pleg.Healthy, Sources: map[string]syncloop.EventSource{"file": files}}))

	// They run until the process is told to end. The pods go on.
	parts, ctx := errgroup.WithContext(ctx)
	go func() { must(0, http.ListenAndServe(*listen, a.shown)) }()
	for _, run := range []func(context.Context) error{a.pleg.Run, a.statuses.Run, a.probes.Run, a.workers.Run, a.loop.Run} {
		parts.Go(func() error { return run(ctx) })
	}
	must(0, parts.Wait())
}

func must[T any](v T, err error) T {
	if err != nil {
		slog.Error("edge", "err", err)
		os.Exit(1)
	}
	return v
}

// agent is what the parts know of each other, and what is done when it is a pod's turn.
type agent struct {
	root     string
	pods     *pods.Manager
	garbage  *garbage.Collector
	pleg     *pleg.PLEG
	probes   *probe.Manager
	statuses *writer.Writer
	shown    *filesink.Sink
	workers  *podworkers.Workers
	loop     *syncloop.Loop
}

// SyncPod starts what does not run of a pod, and restarts what has failed.
func (a *agent) SyncPod(ctx context.Context, w podworkers.Work) (terminal bool, err error) {
	disk := errors.Join(os.MkdirAll(a.dir(w.Pod.UID), 0o750), a.shown.Put(w.Pod)) // a full one stops no pod
	observed, seen, err := a.look(ctx, w, w.ActedAt, false)
	if phase := seen.Status.Phase; err != nil || phase == v1.PodSucceeded || phase == v1.PodFailed {
		return err == nil, err
	}
	result := a.pods.SyncPod(ctx, pods.SyncRequest{Pod: w.Pod, Status: observed, RestartAll: seen.RestartAll, Probes: a.probes.Results(w.Pod.UID)})
	if result.Acted() {
		_, _, err = a.look(ctx, w, time.Now(), false)
	}
	if result.Again() {
		a.dirty(w.Pod.UID)
	}
	err = errors.Join(result.Err(), err, disk, a.probes.AddPod(w.Pod))
	return result.Over() && err == nil, err
}

// SyncTerminatingPod stops a pod.
func (a *agent) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	a.probes.StopLivenessAndStartup(w.Pod.UID)
	observed, _, err := a.look(ctx, w, w.ActedAt, false)
	if err != nil {
		return err
	}
	result := a.pods.KillPod(ctx, pods.KillRequest{Pod: w.Pod, Status: observed, GraceSeconds: &w.GracePeriodSeconds})
	if err = result.Err(); err == nil {
		a.probes.RemovePod(w.Pod.UID)
		_, _, err = a.look(ctx, w, time.Now(), true)
	}
	return err
}

// SyncTerminatedPod closes the books of a pod.
func (a *agent) SyncTerminatedPod(_ context.Context, w podworkers.Work) error {
	a.statuses.Terminate(w.Pod)
	return nil
}

// SyncTerminatingOrphan stops a pod whose manifest went while no agent ran.
func (a *agent) SyncTerminatingOrphan(ctx context.Context, o podworkers.RuntimePod, actedAt time.Time) error {
	observed, err := a.pleg.Observe(ctx, o.UID, actedAt)
	if err != nil {
		return err
	}
	result := a.pods.KillPod(ctx, pods.KillRequest{Status: observed})
	return result.Err()
}

// look observes a pod, and computes, shows and keeps its status.
func (a *agent) look(ctx context.Context, w podworkers.Work, after time.Time, terminal bool) (*pleg.PodStatus, status.Result, error) {
	observed, err := a.pleg.Observe(ctx, w.Pod.UID, after)
	if err != nil {
		return nil, status.Result{}, err
	}
	if a.statuses.Get(w.Pod.UID) == nil { // what was known before a crash or a reboot
		before := a.shown.Status(w.Pod)
		a.statuses.Restore(w.Pod, before)
		a.probes.Restore(w.Pod.UID, status.Probed(&before))
	}
	result := status.Compute(status.Input{Pod: w.Pod, Observed: observed, Previous: a.statuses.Get(w.Pod.UID),
		Probes: a.probes.Results(w.Pod.UID), StartFailures: status.Reasons(a.pods.StartFailures(w.Pod.UID)), Override: w.Status, Terminal: terminal, Now: time.Now()})
	a.statuses.Set(w.Pod, result.Status)
	a.probes.Trigger(w.Pod.UID, result.ProbeNow...)
	return observed, result, nil
}

// clean removes what is left of pods whose manifests are gone. The loop waits for it, so none of them comes back before.
func (a *agent) clean(ctx context.Context, c *syncloop.Cleanup) error {
	kept := func(uid types.UID) bool { return c.Desired(uid) || !a.workers.State(uid).ShouldBeFinished() }
	a.statuses.Prune(kept)
	a.probes.Prune(kept)
	err := a.garbage.Collect(ctx, garbage.Request{SourcesReady: true, ContentRemovable: func(uid types.UID) bool { return !kept(uid) }})
	folders, _ := os.ReadDir(a.dir(""))
	for _, f := range folders {
		if uid := types.UID(f.Name()); err == nil && !kept(uid) {
			err = os.RemoveAll(a.dir(uid))
		}
	}
	return errors.Join(err, a.shown.Prune(kept))
}

// orphans are all pods that run.
func (a *agent) orphans(context.Context) (out []podworkers.RuntimePod, err error) {
	for _, p := range a.pleg.Pods() {
		if !p.Stopped() {
			out = append(out, podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace})
		}
	}
	return out, a.pleg.Healthy()
}

func (a *agent) dir(uid types.UID) string { return filepath.Join(a.root, "pods", string(uid)) }
func (a *agent) dirty(uid types.UID)      { a.loop.Emit(syncloop.Event{Kind: syncloop.PodDirty, UID: uid}) }
func event(ref v1.ObjectReference, eventtype, reason, message string) {
	slog.Info(message, "pod", ref.Namespace+"/"+ref.Name, "field", ref.FieldPath, "type", eventtype, "reason", reason)
}
