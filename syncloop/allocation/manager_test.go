package allocation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent is a Manager with a file, and the active pods.
type agent struct {
	*Manager
	path    string
	fit     Fit
	ready   bool
	pods    []*v1.Pod
	events  []string
	metrics map[string]int
}

func newAgent(t *testing.T, fit Fit) *agent {
	a := &agent{path: filepath.Join(t.TempDir(), AllocatedFile), fit: fit, ready: true, metrics: map[string]int{}}
	a.start(t)
	return a
}

func (a *agent) start(t *testing.T) {
	t.Helper()
	store, err := Open(a.path)
	require.NoError(t, err)
	a.Manager, err = New(Config{
		Store: store,
		Fit:   func(pod *v1.Pod, others []*v1.Pod) error { return a.fit(pod, others) },
		Ready: func() bool { return a.ready },
		Event: func(ref v1.ObjectReference, eventtype, reason, message string) {
			a.events = append(a.events, fmt.Sprintf("%s %s %s %s", ref.Name, eventtype, reason, message))
		},
		Metrics: Metrics{
			OnRequest:          func(r, q, op string) { a.metrics[r+" "+q+" "+op]++ },
			OnInfeasible:       func(detail string) { a.metrics[detail]++ },
			OnDeferredAccepted: func(trigger string) { a.metrics[trigger]++ },
		},
	})
	require.NoError(t, err)
}

func (a *agent) admit(pod *v1.Pod) error {
	if err := a.admitOnly(pod); err != nil {
		return err
	}
	return a.cfg.Store.Stage().Prepare(context.Background(), pod)
}

func (a *agent) admitOnly(pod *v1.Pod) error {
	var active []*v1.Pod
	for _, other := range a.pods {
		if other.UID != pod.UID {
			active = append(active, a.Allocated(other))
		}
	}
	return a.Admitter(syncloop.AdmitterFunc(a.fit)).Admit(pod, active)
}

func (a *agent) add(t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	for _, pod := range pods {
		require.NoError(t, a.admit(pod))
		a.pods = append(a.pods, pod)
	}
	require.Empty(t, a.Retry(syncloop.RetryPodsAdded, a.pods))
}

// requestResize changes the requests of a pod and returns the result of Retry.
func (a *agent) requestResize(i int, r v1.ResourceRequirements) []types.UID {
	a.pods[i] = resized(a.pods[i], r)
	return a.Retry(syncloop.RetryPodUpdated, a.pods)
}

func (a *agent) cpu(i int) string {
	return a.Allocated(a.pods[i]).Spec.Containers[0].Resources.Requests.Cpu().String()
}

// N16
func TestGrant(t *testing.T) {
	a := newAgent(t, node(4000))
	a.add(t, newPod("a", with("1", "")), newPod("b", with("1", "")))
	require.False(t, a.Begun(a.pods[0]))
	require.Same(t, a.pods[0], a.Allocated(a.pods[0]))
	require.Equal(t, []types.UID{"a"}, a.requestResize(0, with("2", "")))
	require.Equal(t, "2", a.cpu(0))
	require.Equal(t, []string{`a Normal ResizeStarted Pod resize started: {"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}],"generation":2}`}, a.events)
	require.False(t, a.Begun(newPod("a", with("1", ""))), "the spec has the old allocation")
	require.True(t, a.Begun(a.pods[0]))
	require.False(t, a.Begun(a.pods[0]), "Begun reports a resize once")
	require.Equal(t, map[string]int{"cpu requests increase": 1}, a.metrics)
	require.Empty(t, a.Retry(syncloop.RetryPeriodic, a.pods))

	a.start(t)
	a.pods[0] = resized(a.pods[0], with("4", ""))
	require.NoError(t, a.admit(a.pods[0]))
	require.Equal(t, "2", a.cpu(0), "the stored allocation applies")
}

// N17
func TestDeferredThenApplied(t *testing.T) {
	a := newAgent(t, node(3000))
	a.add(t, newPod("a", with("1", "")), newPod("b", with("2", "")))
	require.Equal(t, []types.UID{"a"}, a.requestResize(0, with("2", "")))
	require.Equal(t, "1", a.cpu(0))
	require.Same(t, a.Allocated(a.pods[0]), a.Allocated(a.pods[0]))
	w, waits := a.Waiting("a")
	require.True(t, waits)
	require.Equal(t, Waiting{2, v1.PodReasonDeferred, "4000 of 3000", w.Since}, w)
	require.Empty(t, a.Retry(syncloop.RetryPeriodic, a.pods), "the decision has not changed")
	require.Len(t, a.events, 1)
	require.Contains(t, a.events[0], `a Warning ResizeDeferred Pod resize Deferred: {`)
	require.Contains(t, a.events[0], `"error":"4000 of 3000"`)
	a.pods[0] = a.pods[0].DeepCopy() // the API server lags
	a.pods[0].Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonInfeasible, ObservedGeneration: 1}}
	require.Empty(t, a.Retry(syncloop.RetryPeriodic, a.pods))
	require.Len(t, a.events, 1)

	b := a.pods[1]
	a.pods = a.pods[:1] // b has ended
	require.Equal(t, []types.UID{"a"}, a.Retry(syncloop.RetryPeriodic, a.pods))
	require.Equal(t, "2", a.cpu(0))
	_, waits = a.Waiting("a")
	require.False(t, waits)
	require.Equal(t, 1, a.metrics[syncloop.RetryPeriodic])
	require.Error(t, a.admit(b), "a has its resources")
}

// N17
func TestInfeasible(t *testing.T) {
	a := newAgent(t, node(3000))
	a.add(t, newPod("a", with("1", "")))
	a.fit = func(*v1.Pod, []*v1.Pod) error { return &Infeasible{"a_policy", "not allowed by the policy"} }
	require.Equal(t, []types.UID{"a"}, a.requestResize(0, with("2", "")))
	require.Empty(t, a.Retry(syncloop.RetryPeriodic, a.pods))
	w, _ := a.Waiting("a")
	require.Equal(t, v1.PodReasonInfeasible, w.Reason)
	require.Equal(t, 1, a.metrics["a_policy"])
	require.Len(t, a.events, 1)
	require.Contains(t, a.events[0], "a Warning ResizeInfeasible Pod resize Infeasible: {")
	require.Equal(t, []types.UID{"a"}, a.requestResize(0, with("1", "")), "the request was withdrawn")
	require.Equal(t, map[string]int{"a_policy": 1, "cpu requests increase": 1, "cpu requests decrease": 1}, a.metrics)
}

// N18
func TestRestartKeepsAllocations(t *testing.T) {
	a := newAgent(t, node(3000))
	a.add(t, newPod("a", with("1", "")), newPod("b", with("2", "")))
	a.requestResize(0, with("2", ""))
	since := metav1.Unix(7, 0)
	a.pods[0] = a.pods[0].DeepCopy()
	a.pods[0].Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred, ObservedGeneration: 2, LastTransitionTime: since}}
	events := len(a.events)

	a.start(t)
	a.ready = false
	pods := a.pods
	a.pods = nil
	a.add(t, pods[0])
	require.Equal(t, "1", a.cpu(0))
	a.add(t, pods[1]) // resizes wait until all pods are available
	a.ready = true
	require.Equal(t, []types.UID{"a"}, a.Retry(syncloop.RetryPeriodic, a.pods))
	require.Equal(t, "1", a.cpu(0))
	w, _ := a.Waiting("a")
	require.True(t, since.Time.Equal(w.Since))
	require.Len(t, a.events, events, "the event was recorded before the restart")
}

// The allocation of a static pod follows its manifest, also after a restart.
func TestStaticPodsKeepTheirResources(t *testing.T) {
	a := newAgent(t, node(3000))
	a.add(t, newPod("s", with("1", ""), static))
	require.Equal(t, []types.UID{"s"}, a.requestResize(0, with("9", "")))
	require.Equal(t, "9", a.cpu(0))
	require.Empty(t, a.events)
	a.start(t)
	r, _ := a.cfg.Store.Get("s")
	require.True(t, r.Equal(ResourcesOf(a.pods[0])))

	edited := resized(a.pods[0], with("2", ""))
	require.Same(t, edited, a.Allocated(edited), "the manifest applies, not the file")
	require.NoError(t, a.admit(edited))
	r, _ = a.cfg.Store.Get("s")
	require.True(t, r.Equal(ResourcesOf(edited)))
}

// Before the first decision, which waits for all pods, the waiting resizes are unknown.
func TestDecided(t *testing.T) {
	a := newAgent(t, node(1000))
	a.ready = false
	a.Retry(syncloop.RetryPeriodic, nil)
	require.False(t, a.Decided())
	a.ready = true
	a.Retry(syncloop.RetryPeriodic, nil)
	require.True(t, a.Decided())
}

// Rules are checked before Fit.
func TestManagerAppliesRules(t *testing.T) {
	a := newAgent(t, node(3000))
	a.cfg.Rules.StaticCPU = true
	pod := newPod("a", with("1", "1Mi", "limits"))
	a.add(t, pod)
	require.Equal(t, []types.UID{"a"}, a.requestResize(0, with("2", "1Mi", "limits")))
	w, _ := a.Waiting("a")
	require.Equal(t, v1.PodReasonInfeasible, w.Reason)
	require.Equal(t, 1, a.metrics["guaranteed_pod_cpu_manager_static_policy"])
}

// A resize that cannot be written is not granted, and is retried.
func TestFailedWriteIsRetried(t *testing.T) {
	a := newAgent(t, node(3000))
	a.add(t, newPod("a", with("1", "")))
	dir := filepath.Dir(a.path)
	require.NoError(t, os.Rename(dir, dir+".gone"))
	require.Empty(t, a.requestResize(0, with("2", "")))
	require.Equal(t, "1", a.cpu(0))
	b := newPod("b", with("1", ""))
	require.ErrorContains(t, a.admit(b), a.path, "the pod waits and its allocation counts")
	require.Equal(t, 2, a.cfg.Store.Pods())
	require.NoError(t, os.Rename(dir+".gone", dir))
	require.Equal(t, []types.UID{"a"}, a.Retry(syncloop.RetryPeriodic, a.pods))
	require.Equal(t, "2", a.cpu(0))
	a.start(t)
	require.Equal(t, 2, a.cfg.Store.Pods(), "the file has both pods")
}

func TestAdmitter(t *testing.T) {
	a := newAgent(t, node(3000))
	var why *syncloop.Rejection
	require.ErrorAs(t, a.admit(newPod("a", with("-1", ""))), &why)
	require.Equal(t, "Allocate failed due to container c: resources.requests[cpu]: -1 is negative, which is unexpected", why.Message)
	require.Error(t, a.admit(newPod("a", with("4", ""))))
	require.Zero(t, a.cfg.Store.Pods())
	none := syncloop.AdmitterFunc(func(*v1.Pod, []*v1.Pod) error { var none *syncloop.Rejection; return none })
	require.NoError(t, a.Admitter(none).Admit(newPod("a", with("4", "")), nil))
	require.Equal(t, 1, a.cfg.Store.Pods())
}

func TestNew(t *testing.T) {
	_, err := New(Config{Fit: node(1)})
	require.ErrorContains(t, err, "allocation: Config.Store is required")
	_, err = New(Config{Store: NewStore()})
	require.ErrorContains(t, err, "allocation: Config.Fit is required")
	m, err := New(Config{Store: NewStore(), Fit: node(1000)})
	require.NoError(t, err)
	pod := newPod("a", with("1", "1Mi", "limits"))
	require.NoError(t, m.Admitter(syncloop.AdmitterFunc(node(1000))).Admit(pod, nil))
	m.Retry("", []*v1.Pod{pod})
	pod = resized(pod, with("", "2Mi"))
	require.Len(t, m.Retry("", []*v1.Pod{pod}), 1)
	deferred := resized(pod, with("2", "2Mi"))
	require.Len(t, m.Retry("", []*v1.Pod{deferred}), 1)
	m.cfg.Fit = node(2000)
	require.Len(t, m.Retry("", []*v1.Pod{deferred}), 1)
	require.Len(t, m.Retry("", []*v1.Pod{resized(deferred, with("-2", ""))}), 1)
}

// Cleaner drops the state of removed pods.
func TestCleaner(t *testing.T) {
	a := newAgent(t, node(3000))
	a.add(t, newPod("a", with("1", "")), newPod("b", with("1", "")))
	a.requestResize(0, with("1500m", ""))
	a.requestResize(1, with("1500m", ""))
	a.cpu(0)
	a.cpu(1)
	actuated := NewStore()
	require.NoError(t, actuated.Set("a", Resources{}))
	workers, err := podworkers.New(podworkers.Config{Syncer: noopSyncer{}})
	require.NoError(t, err)
	handler, err := syncloop.NewHandler(syncloop.HandlerConfig{Workers: workers, Cleaners: []syncloop.Cleaner{a.Cleaner(actuated)}})
	require.NoError(t, err)
	handler.Desired().Set(a.pods[1])
	require.NoError(t, handler.HandlePodCleanups(t.Context()))
	require.Equal(t, 1, a.cfg.Store.Pods())
	require.Zero(t, actuated.Pods())
	require.Equal(t, []int{1, 1, 1}, []int{len(a.views), len(a.begun), len(a.lastPods)})
	require.Contains(t, a.views, types.UID("b"))
	require.Contains(t, a.lastPods, types.UID("b"))
	require.True(t, a.Begun(a.pods[1]))
}

type noopSyncer struct{}

func (noopSyncer) SyncPod(context.Context, podworkers.Work) (bool, error)    { return false, nil }
func (noopSyncer) SyncTerminatingPod(context.Context, podworkers.Work) error { return nil }
func (noopSyncer) SyncTerminatedPod(context.Context, podworkers.Work) error  { return nil }

// A granted resize that cannot be stored waits as before, and is decided again by the next call.
func TestUnstoredGrantWaits(t *testing.T) {
	a := newAgent(t, node(3000))
	a.add(t, newPod("a", with("1", "")), newPod("b", with("2", "")))
	require.Equal(t, []types.UID{"a"}, a.requestResize(0, with("2", "")))
	before, waits := a.Waiting("a")
	require.True(t, waits)
	folder := filepath.Dir(a.path)
	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.WriteFile(folder, nil, 0o600))
	a.pods = a.pods[:1] // b has ended
	require.Empty(t, a.Retry(syncloop.RetryPeriodic, a.pods))
	now, waits := a.Waiting("a")
	require.True(t, waits)
	require.Equal(t, before, now)
	require.Equal(t, "1", a.cpu(0))

	require.NoError(t, os.Remove(folder))
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.Equal(t, []types.UID{"a"}, a.Retry(syncloop.RetryPeriodic, a.pods))
	_, waits = a.Waiting("a")
	require.False(t, waits)
	require.Equal(t, "2", a.cpu(0))
	require.Equal(t, 1, a.metrics[syncloop.RetryPeriodic], "a deferred resize was accepted")
}
