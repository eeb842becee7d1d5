package podworkers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// podOf returns an API pod with a grace period of 30 s.
func podOf(uid string, change ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: "pod-" + uid, Namespace: "ns"},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: new(int64(30))},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func static(name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Name, p.Annotations = name, map[string]string{podfacts.ConfigSource: "file"}
	}
}

func specGrace(s int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &s }
}

func deletionGrace(s int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.DeletionGracePeriodSeconds = &s }
}

func create(p *v1.Pod) Update { return Update{Type: UpdateCreate, Pod: p} }
func update(p *v1.Pod) Update { return Update{Type: UpdateUpdate, Pod: p} }
func resync(p *v1.Pod) Update { return Update{Type: UpdateSync, Pod: p} }

func kill(p *v1.Pod, o ...KillOptions) Update {
	u := Update{Type: UpdateKill, Pod: p}
	if len(o) > 0 {
		u.Kill = &o[0]
	}
	return u
}

func orphan(uid string) Update {
	return Update{Type: UpdateKill, RuntimePod: &RuntimePod{UID: types.UID(uid), Name: "pod-" + uid, Namespace: "ns"}}
}

// rig drives a machine by hand.
type rig struct {
	t testing.TB
	*Machine
}

var rigPolicy = retryPolicy{resync: time.Minute, backoff: 10 * time.Second, network: time.Second, jitter: func() float64 { return 0 }}

func newRig(t testing.TB) *rig {
	r := newShutRig(t)
	r.Run()
	return r
}

// newShutRig returns a rig before Run.
func newShutRig(t testing.TB) *rig { return &rig{t, NewMachine()} }

func (r *rig) do(input func()) { r.input(TraceEvent{}, func(time.Time) { input() }) }

func (r *rig) update(u Update) { r.Update(u, false) }

func (r *rig) end(uid string, terminal bool, err error) {
	require.Contains(r.t, r.running, types.UID(uid), "no call of %s runs", uid)
	r.End(types.UID(uid), terminal, err)
}

func (r *rig) known(desired ...*v1.Pod) (known map[types.UID]KnownPod) {
	r.do(func() { known = r.m.syncKnownPods(desired, r.now) })
	return known
}

func (r *rig) state(uid string) State  { return r.m.podState(types.UID(uid)).State }
func (r *rig) pod(uid string) PodState { return r.m.podState(types.UID(uid)) }
func (r *rig) call(uid string) Call    { return r.running[types.UID(uid)].kind }
func (r *rig) work(uid string) Work    { return r.running[types.UID(uid)].work }

// bringTo moves a new pod into a state. In the states from Syncing to Terminated the call of that
// state runs.
func (r *rig) bringTo(pod *v1.Pod, s State) {
	r.update(create(pod))
	if s > StateSyncing {
		r.update(kill(pod))
	}
	for range max(0, int(s)-int(StateTerminationRequested)) {
		r.end(string(pod.UID), false, nil)
	}
	require.Equal(r.t, s, r.state(string(pod.UID)))
}
