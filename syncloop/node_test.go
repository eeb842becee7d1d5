package syncloop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// node is the subject of a script: an agent that may be restarted, its runtime, and the scripted
// results.
type node struct {
	log
	t         *testing.T
	sources   []string
	perSource bool
	order     syncloop.Order
	needs     bool
	pods      map[string]*v1.Pod

	// mu guards the fields below, except agent, which only the script's goroutine uses.
	*agent
	runtime       []podworkers.RuntimePod
	started       map[types.UID]*metav1.Time // in the runtime
	statuses      map[types.UID]v1.PodPhase  // computed by the agent
	admissions    map[types.UID]string       // results of the admitter, by pod
	failingChecks int                        // number of health checks that fail, -1: all
	cleaner       string                     // next behaviour of the cleaner
	orphans       string                     // mirror pods in the cleaner's last run
}

// agent is one run of the agent.
type agent struct {
	merger  *podsource.Merger
	workers *podworkers.Workers
	handler *syncloop.DefaultHandler
	loop    *syncloop.Loop
	rec     *podworkerstest.Recorder
	stop    func()
}

func newNode(t *testing.T) *node {
	return &node{
		log: log{begin: time.Now()}, t: t, sources: []string{"file", "api"}, pods: map[string]*v1.Pod{},
		started: map[types.UID]*metav1.Time{}, statuses: map[types.UID]v1.PodPhase{}, admissions: map[types.UID]string{},
	}
}

func (n *node) close() {
	if n.agent != nil {
		n.agent.stop()
	}
}

// start starts an agent unless one runs.
func (n *node) start() {
	if n.agent != nil {
		return
	}
	a := &agent{}
	n.agent = a
	var err error
	a.merger, err = podsource.NewMerger(podsource.MergerConfig{Sources: n.sources})
	require.NoError(n.t, err)
	cfg := podworkers.Config{
		Syncer:             syncer{n},
		Jitter:             func() float64 { return 0 },
		TerminalPodStopped: func(uid types.UID) bool { return !n.isRunning(uid) },
		OnTrace:            n.recordTrace,
		OnDue:              func(uid types.UID) { a.loop.Emit(syncloop.Event{Kind: syncloop.SyncDue, UID: uid}) },
		OnTransition: func(tr podworkers.Transition) {
			if tr.To == podworkers.StateFinished {
				a.loop.Emit(syncloop.Event{Kind: syncloop.Housekeeping})
			}
		},
	}
	a.rec = podworkerstest.Record(&cfg)
	a.workers, err = podworkers.New(cfg)
	require.NoError(n.t, err)
	a.handler, err = syncloop.NewHandler(syncloop.HandlerConfig{
		Workers: recordedWorkers{a.workers, n}, Sources: a.merger, PerSource: n.perSource,
		Admit: n.admitter(), OnReject: n.recordRejection, Order: n.order, Phase: n.phase,
		RuntimePods: n.runtimePods,
		Prune:       func(_ context.Context, uid types.UID, all bool) { n.note("prune", "prune %s all=%v", uid, all) },
		Cleaners:    []syncloop.Cleaner{{Name: "probes", Clean: n.clean}},
	})
	require.NoError(n.t, err)
	a.loop, err = syncloop.New(syncloop.Config{
		Handler: syncs{a.handler, n}, Pods: changes{a.merger, n, map[string]map[types.UID]*v1.Pod{}}, Health: n.healthy,
		Sources: map[string]syncloop.EventSource{"deadlines": a.handler.ActiveDeadlines(n.startTime)},
	})
	require.NoError(n.t, err)
	ctx, cancel := context.WithCancel(n.t.Context())
	var running sync.WaitGroup
	running.Go(func() { require.NoError(n.t, a.workers.Run(ctx)) })
	running.Go(func() { require.NoError(n.t, a.loop.Run(ctx)) })
	a.stop = func() { cancel(); running.Wait() }
	synctest.Wait()
}

// recordTrace records the workers' transitions.
func (n *node) recordTrace(e podworkers.TraceEvent) {
	if (e.Kind.Input() && e.Kind != podworkers.TraceEnd) || e.Kind == podworkers.TraceAsk || e.Kind == podworkers.TraceDone {
		return
	}
	text := podworkerstest.Trace{{At: n.begin, Kind: podworkers.TraceRun}, e}.String()
	_, text, _ = strings.Cut(strings.TrimSpace(text), "\n")
	_, text, _ = strings.Cut(text, " ")
	n.note(string(e.UID), "  %s", strings.TrimSpace(text))
}

func (n *node) admitter() syncloop.Admitter {
	scripted := syncloop.AdmitterFunc(func(pod *v1.Pod, active []*v1.Pod) error {
		n.note("", "admit %s beside [%s]?", pod.UID, uids(active))
		n.mu.Lock()
		result := n.admissions[pod.UID]
		n.mu.Unlock()
		verb, text, _ := strings.Cut(result, " ")
		switch verb {
		case "reject":
			return syncloop.Reject(text, "as scripted")
		case "defer":
			return errors.New(text)
		case "panic":
			panic(text)
		}
		return nil
	})
	if !n.needs {
		return scripted
	}
	return syncloop.AdmitAll(syncloop.AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
		name := pod.Annotations["needs"]
		if other := n.agent.handler.Desired().ByName("ns", name); name != "" && (other == nil || n.startTime(other) == nil) {
			return fmt.Errorf("%s has not started", name)
		}
		return nil
	}), scripted)
}

func (n *node) recordRejection(pod *v1.Pod, why syncloop.Rejection) {
	n.note(string(pod.UID), "status of %s: Failed, %s: %s", pod.UID, why.Reason, why.Message)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.statuses[pod.UID] = v1.PodFailed
}

func (n *node) phase(pod *v1.Pod) v1.PodPhase {
	n.mu.Lock()
	defer n.mu.Unlock()
	if phase := n.statuses[pod.UID]; phase != "" {
		return phase
	}
	return pod.Status.Phase
}

func (n *node) startTime(pod *v1.Pod) *metav1.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.started[pod.UID]
}

func (n *node) runtimePods(context.Context) ([]podworkers.RuntimePod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runtime, nil
}

func (n *node) isRunning(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, pod := range n.runtime {
		if pod.UID == uid {
			return true
		}
	}
	return false
}

func (n *node) healthy() error {
	n.mu.Lock()
	bad := n.failingChecks
	if n.failingChecks > 0 {
		n.failingChecks--
	}
	n.mu.Unlock()
	if bad > 0 {
		n.note("", "the runtime is down")
	}
	if bad != 0 {
		return errors.New("the runtime is down")
	}
	return nil
}

// clean is a Cleaner. It logs the mirror pods to delete when their set changes.
func (n *node) clean(ctx context.Context, c *syncloop.Cleanup) error {
	n.mu.Lock()
	verb, rest, _ := strings.Cut(n.cleaner, " ")
	n.cleaner = ""
	orphans := uids(c.LeftoverMirrors)
	news := orphans != n.orphans
	n.orphans = orphans
	n.mu.Unlock()
	if news {
		n.note("", "orphan mirrors: [%s]", orphans)
	}
	switch verb {
	case "hang":
		d, _ := time.ParseDuration(rest)
		time.Sleep(d)
	case "fail":
		return errors.New(rest)
	case "panic":
		panic(rest)
	}
	return nil
}

// recordedWorkers records the handler's updates of the workers.
type recordedWorkers struct {
	*podworkers.Workers
	n *node
}

func (w recordedWorkers) UpdatePod(u podworkers.Update) error {
	words := []string{string(u.Type)}
	var about types.UID
	switch {
	case u.Pod != nil:
		about = u.Pod.UID
		words = append(words, string(about))
	default:
		about = u.RuntimePod.UID
		words = append(words, "orphan", string(about))
	}
	if u.MirrorPod != nil {
		words = append(words, "mirror="+string(u.MirrorPod.UID))
	}
	if u.Kill != nil && u.Kill.GracePeriodSeconds != nil {
		words = append(words, "grace="+time.Duration(*u.Kill.GracePeriodSeconds*1e9).String())
	}
	w.n.note(string(about), "%s", strings.Join(words, " "))
	return w.Workers.UpdatePod(u)
}

// changes records the differences between consecutive sets that the loop reads.
type changes struct {
	*podsource.Merger
	n    *node
	read map[string]map[types.UID]*v1.Pod
}

func (c changes) Pods(source string) ([]*v1.Pod, bool) {
	pods, delivered := c.Merger.Pods(source)
	list := syncloop.Diff(c.read[source], pods)
	if c.read[source] == nil && len(pods) == 0 {
		list = []syncloop.Change{{Op: syncloop.OpAdd}}
	}
	for _, change := range list {
		c.n.note("", "%s", strings.TrimSpace(change.Op.String()+" from "+source+": "+uids(change.Pods)))
	}
	c.read[source] = map[types.UID]*v1.Pod{}
	for _, pod := range pods {
		c.read[source][pod.UID] = pod
	}
	return pods, delivered
}

func (c changes) Handled(source string) {
	before := c.Ready()
	if c.Merger.Handled(source); c.Ready() != before {
		c.n.note("", "all sources are ready")
	}
}

// syncs records the pods that the loop syncs.
type syncs struct {
	*syncloop.DefaultHandler
	n *node
}

func (s syncs) HandlePodSyncs(ctx context.Context, list []syncloop.Sync) {
	for _, sync := range list {
		s.n.note("", "SYNC %s (%s)", sync.UID, sync.Kinds)
	}
	s.DefaultHandler.HandlePodSyncs(ctx, list)
}

// syncer runs pods and ends them at their deadline.
type syncer struct{ n *node }

func (s syncer) SyncPod(_ context.Context, w podworkers.Work) (bool, error) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.n.started[w.Pod.UID] == nil {
		s.n.started[w.Pod.UID] = &metav1.Time{Time: time.Now()}
	}
	return syncloop.PastActiveDeadline(w.Pod, s.n.started[w.Pod.UID], time.Now()), nil
}

func (s syncer) SyncTerminatingPod(context.Context, podworkers.Work) error { return nil }
func (s syncer) SyncTerminatedPod(context.Context, podworkers.Work) error  { return nil }
func (s syncer) SyncTerminatingOrphan(context.Context, podworkers.RuntimePod, time.Time) error {
	return nil
}

func uids(pods []*v1.Pod) string {
	var list []string
	for _, pod := range pods {
		list = append(list, string(pod.UID))
	}
	return strings.Join(list, " ")
}
