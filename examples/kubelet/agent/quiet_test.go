package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/csi"
	"github.com/podwright/podwright/internal/testkit/testagent"
)

// published lists the changes of the Node's and the pods' statuses at the API server, and the new
// events.
type published struct {
	w *world

	mu      sync.Mutex
	last    map[string]string
	changes []string
	events  map[string]int32
}

// publications records from now on. Before each call it compares the objects with the last ones.
func (w *world) publications() *published {
	p := &published{w: w, last: map[string]string{}}
	p.events = p.countEvents()
	p.compare()
	p.changes = nil
	w.api.SetFault(func(apitest.Call) (none apitest.Fault) { p.compare(); return none })
	return p
}

func (p *published) countEvents() map[string]int32 {
	n := map[string]int32{}
	for _, e := range apitest.All[*v1.Event](p.w.api) {
		n[e.InvolvedObject.Name+" "+e.Reason] += max(e.Count, 1)
	}
	return n
}

func (p *published) compare() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range apitest.All[*v1.Node](p.w.api) {
		status := n.Status.DeepCopy()
		for i := range status.Conditions {
			c := &status.Conditions[i]
			p.note("node "+string(c.Type), fmt.Sprintf("%s: %s", c.Status, c.Message))
			c.LastHeartbeatTime = metav1.Time{}
		}
		status.Conditions = nil
		withoutHugePages(status)
		p.note("node", text(status))
	}
	for _, pod := range apitest.All[*v1.Pod](p.w.api) {
		p.note(pod.Name, text(&pod.Status))
	}
}

// withoutHugePages removes the machine's huge pages and their effect on the memory for pods. Tests
// of other packages change them meanwhile.
func withoutHugePages(status *v1.NodeStatus) {
	memory := status.Allocatable[v1.ResourceMemory]
	memory.Add(*resource.NewQuantity(hugePagesOf(status.Capacity), resource.BinarySI))
	status.Allocatable[v1.ResourceMemory] = memory
	for _, list := range []v1.ResourceList{status.Capacity, status.Allocatable} {
		maps.DeleteFunc(list, func(name v1.ResourceName, _ resource.Quantity) bool { return isHugePages(name) })
	}
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// hugePagesOf returns the sum of all huge pages in bytes.
func hugePagesOf(list v1.ResourceList) (sum int64) {
	for name, amount := range list {
		if isHugePages(name) {
			sum += amount.Value()
		}
	}
	return sum
}

func text(status any) string {
	data, err := json.Marshal(status)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (p *published) note(what, now string) {
	if p.last[what] != now {
		p.last[what] = now
		p.changes = append(p.changes, what+" "+now)
	}
}

func (p *published) all() []string {
	p.compare()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Clone(p.changes)
	was := maps.Clone(p.events)
	for _, e := range slices.Sorted(maps.Keys(p.countEvents())) {
		if p.countEvents()[e] > was[e] && e != "unready Unhealthy" { // also without a disturbance
			out = append(out, "event "+e)
		}
	}
	return out
}

// A restart, and a short absence of the runtime or of the API server, publishes the same as
// upstream's kubelet or less. The comment of a row has the publications of upstream, measured or
// read in its source; its three events NodeHasSufficient* of each start are omitted.
func TestWhatDisturbancesPublish(t *testing.T) {
	restart := func(connect time.Duration) func(*world) {
		return func(w *world) {
			w.stop()
			w.connectAfter = connect
			w.startFor(0)
		}
	}
	withoutRuntime := func(d time.Duration) func(*world) {
		return func(w *world) {
			w.runtime.Stop()
			w.Sleep(d)
			require.NoError(w.t, w.runtime.Start(w.t.Context(), fake.LoseNothing))
		}
	}
	withoutAPI := func(d time.Duration) func(*world) {
		return func(w *world) { w.api.SetDown(true); w.Sleep(d); w.api.SetDown(false) }
	}
	const probe = "event probed Unhealthy" // "Readiness probe errored"
	down := []string{"node Ready False: container runtime is down", "node Ready True: kubelet is posting ready status", "event n NodeNotReady", "event n NodeReady", probe}
	starting := []string{"event n NodeAllocatableEnforced", "event n Starting"}
	for name, c := range map[string]struct {
		disturb func(*world)
		want    []string
	}{
		"restart":                        {restart(0), starting},               // the same
		"restart, runtime after 3 s":     {restart(3 * time.Second), starting}, // exits until the runtime responds
		"restart, runtime after 9 s":     {restart(9 * time.Second), starting}, // exits until the runtime responds
		"restart with the API server":    {func(w *world) { withoutAPI(3 * time.Second)(w); restart(0)(w) }, starting},
		"restart without the API server": {func(w *world) { w.stop(); w.api.SetDown(true); w.startFor(20 * time.Second); w.api.SetDown(false) }, starting}, // the same
		"runtime away for 3 s":           {withoutRuntime(3 * time.Second), []string{probe}},                                                               // the same
		"runtime away for 30 s":          {withoutRuntime(30 * time.Second), []string{probe}},                                                              // depends on the time of its next status
		"runtime away for a minute":      {withoutRuntime(time.Minute), down},                                                                              // the same, 10 s earlier or later
		"API server away for 3 s":        {withoutAPI(3 * time.Second), nil},                                                                               // the same
		"API server away for a minute":   {withoutAPI(time.Minute), nil},                                                                                   // the same
	} {
		t.Run(name, func(t *testing.T) {
			a := testagent.NewAnswers()
			inClusterOf(t, fake.Config{Exec: a.Exec()}, func(w *world) {
				probed := bound("probed", "c")
				probed.Spec.Containers[0].ReadinessProbe = asking("ready", 3)
				probed.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 20
				probed.Spec.Containers[0].StartupProbe = asking("started", 3)
				unready := bound("unready", "u")
				unready.Spec.Containers[0].ReadinessProbe = asking("unready", 3)
				a.Set("u unready", 1)
				w.put(bound("plain", "p"), probed, unready)
				w.startFor(time.Minute)
				p := w.publications()
				c.disturb(w)
				w.Sleep(2 * time.Minute)
				got, want := p.all(), slices.Clone(c.want)
				if !slices.Contains(got, probe) { // a short absence may lie between two probes
					want = slices.DeleteFunc(want, func(e string) bool { return e == probe })
				}
				require.Equal(w.t, strings.Join(want, "\n"), strings.Join(got, "\n"))
			})
		})
	}
}

// A condition of pressure, and the runtime's abilities, stay across a restart until they are
// measured and read anew, also if the runtime connects late. A Node whose runtime is away becomes
// not ready after 10 s. Upstream's kubelet exits until the runtime responds, so that its Node
// becomes Unknown after 40 s.
func TestRestartWithoutRuntime(t *testing.T) {
	inCluster(t, func(w *world) {
		fullDisk(t, w)
		w.startFor(time.Minute)
		p := w.publications()
		for _, after := range []time.Duration{0, 9 * time.Second, time.Minute} {
			w.stop()
			w.connectAfter = after
			w.startFor(2 * time.Minute)
		}
		var kinds []string
		for _, change := range p.all() {
			kinds = append(kinds, strings.Join(strings.Fields(change)[:3], " "))
		}
		kinds = slices.DeleteFunc(slices.Compact(kinds), func(k string) bool { return k == "event n EvictionThresholdMet" })
		require.Equal(w.t, []string{"node Ready False:", "node Ready True:", "event n NodeAllocatableEnforced", "event n NodeNotReady", "event n NodeReady", "event n Starting"}, kinds)
	})
}

// A runtime that hangs makes the Node not ready 30 s after the first hanging poll, and a status period
// for the calls that hang. Upstream counts from the last good poll, which is at most 5 s earlier.
func TestHangingRuntimeIsReportedInTime(t *testing.T) {
	h := &hanging{}
	inClusterOf(t, fake.Config{Intercept: h.intercept}, func(w *world) {
		w.startFor(time.Minute)
		h.set(everything)
		begun := time.Now()
		w.Sleep(25 * time.Second)
		require.Contains(w.t, w.nodeCondition(v1.NodeReady), "True ")
		for strings.HasPrefix(w.nodeCondition(v1.NodeReady), "True ") {
			w.Sleep(100 * time.Millisecond)
			require.Less(w.t, time.Since(begun), 47*time.Second)
		}
		h.set(nil)
		w.Sleep(20 * time.Second)
		require.Contains(w.t, w.nodeCondition(v1.NodeReady), "True ")
	})
}

// An agent does not publish while it stops, also if calls of the runtime hang or delay the stop. It
// does not use a closed connection.
func TestStopPublishesNothing(t *testing.T) {
	for _, call := range []string{"", "RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox"} {
		for _, slow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,slow=%v", call, slow), func(t *testing.T) { stopPublishesNothing(t, call, slow) })
		}
	}
}

// stopPublishesNothing stops an agent during a call that hangs, or that ignores its context.
func stopPublishesNothing(t *testing.T, call string, slow bool) {
	var closed atomic.Bool
	var late atomic.Int32
	intercept := func(context.Context, string, any) error {
		if closed.Load() {
			late.Add(1)
			return errors.New("client is closed")
		}
		return nil
	}
	inClusterOf(t, fake.Config{Intercept: intercept}, func(w *world) {
		cfg := configOf(w.dir, func(context.Context) (*Connection, error) {
			return &Connection{Runtime: w.calls, Images: w.runtime, Name: "fake", Version: "1", Close: func() error {
				closed.Store(true)
				time.Sleep(5 * time.Second)
				return nil
			}}, nil
		})
		cfg.Flags.Kubeconfig, cfg.DialAPI = w.api.Kubeconfig, w.api.Dial
		cfg.Flags.NodeIP = hostIPs(w.t)
		cfg.watchDrivers = csi.NoWatch
		a, err := New(cfg)
		require.NoError(w.t, err)
		w.put(bound("a", "c"))
		stop := apitest.Run(w.t, a.Run)
		w.Sleep(time.Minute)
		require.Equal(w.t, map[string][]uint32{"c": {0}}, w.Running())
		w.calls.Intercept(func(ctx context.Context, got string, do func() error) error {
			switch {
			case got != call:
			case slow:
				time.Sleep(8 * time.Second)
			default:
				<-ctx.Done()
				return ctx.Err()
			}
			return do()
		})
		w.put(bound("b", "d"))
		w.remove("a")
		w.Sleep(1500 * time.Millisecond)
		p := w.publications()
		stop()
		// A slow call that succeeds has its event, if the event is written in time.
		fact := map[string]string{"CreateContainer": "event b Created", "StartContainer": "event b Started"}[call]
		require.Empty(w.t, slices.DeleteFunc(p.all(), func(change string) bool { return slow && change == fact }))
		require.Zero(w.t, late.Load(), "calls of a closed client")
	})
}
