package node_test

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
	nodestatus "github.com/podwright/podwright/status/node"
)

// N3: an unchanged status is written only at the report period.
func TestUnchangedStatusIsReportedRarely(t *testing.T) {
	rigged(t, nil, nil, func(t *testing.T, _ *rig, api *nodetest.API) {
		pass(10 * time.Minute) // includes the first report, whose time depends on the node's name
		api.Forget()
		begun := time.Now()
		pass(time.Hour)
		require.InDelta(t, 12, len(api.Calls(nodetest.PatchNode)), 1)
		c := nodestatus.Condition(&api.Node("n").Status, v1.NodeReady)
		require.True(t, c.LastHeartbeatTime.After(begun.Add(50*time.Minute)), "it refreshes the heartbeat")
		require.True(t, c.LastTransitionTime.Time.Before(begun))
	})
}

// N4: a runtime failure is written at once.
func TestRuntimeThatGoesDown(t *testing.T) {
	rigged(t, nil, nil, func(t *testing.T, r *rig, api *nodetest.API) {
		pass(5 * time.Minute)
		r.set(func() { r.notReady = []string{"container runtime is down"} })
		pass(1100 * time.Millisecond)
		n := api.Node("n")
		require.Equal(t, "False KubeletNotReady", ready(n))
		down := nodestatus.Condition(&n.Status, v1.NodeReady).LastTransitionTime
		pass(10 * time.Minute)
		n = api.Node("n")
		require.Equal(t, down, nodestatus.Condition(&n.Status, v1.NodeReady).LastTransitionTime)
		require.False(t, r.State().Ready)
		r.set(func() { r.notReady = nil })
		r.Wake()
		pass(0)
		require.Equal(t, "True KubeletReady", ready(api.Node("n")), "a requested round does not wait for its period")
		require.Equal(t, []string{"NodeNotReady", "NodeReady"}, r.eventReasons()[4:])

		// Constant wake-ups cause one round a second.
		api.Forget()
		for range 1000 {
			r.set(func() { r.pressure.Disk = !r.pressure.Disk })
			r.Wake()
			pass(10 * time.Millisecond)
		}
		require.LessOrEqual(t, len(api.Calls(nodetest.PatchNode)), 11)
	})
}

// The first ready status is written as soon as the node is ready.
func TestFirstReadyStatus(t *testing.T) {
	unready := func(r *rig) { r.notReady = []string{"container runtime is unknown"} }
	rigged(t, nil, unready, func(t *testing.T, r *rig, api *nodetest.API) {
		pass(3*time.Second + 50*time.Millisecond)
		require.Equal(t, "False KubeletNotReady", ready(api.Node("n")))
		r.set(func() { r.notReady = nil })
		pass(100 * time.Millisecond)
		require.Equal(t, "True KubeletReady", ready(api.Node("n")))
		require.Less(t, len(api.Calls()), 10, "readiness is polled without the API")
	})
}

// N6: a round has five attempts.
func TestRoundHasFiveAttempts(t *testing.T) {
	var down atomic.Bool
	rigged(t, hanging(&down, nodetest.PatchNode), nil, func(t *testing.T, r *rig, api *nodetest.API) {
		pass(time.Minute)
		down.Store(true)
		api.Forget()
		r.set(func() { r.pressure.Memory, r.failures = true, 0 })
		pass(time.Minute)
		require.Len(t, api.Calls(nodetest.PatchNode), 5)
		require.Equal(t, 4, r.failures, "for all attempts but the first")
		require.ErrorContains(t, r.Health(), "writing the status")
		require.ErrorIs(t, r.Health(), context.DeadlineExceeded)
		require.False(t, expired(api.Lease("n")), "the lease does not wait for the status")
		require.NotContains(t, r.eventReasons(), "NodeHasInsufficientMemory", "no event before the status is written")
		down.Store(false)
		pass(time.Minute)
		require.NoError(t, r.Health())
		require.Equal(t, "NodeHasInsufficientMemory", r.eventReasons()[4])
		require.Len(t, r.eventReasons(), 5)
	})
}

// While others edit the Node all the time, each round corrects the agent's part and keeps theirs.
func TestForeignEditsStay(t *testing.T) {
	rigged(t, nil, nil, func(t *testing.T, r *rig, api *nodetest.API) {
		pass(time.Second)
		for i := range 600 {
			api.Edit("n", func(n *v1.Node) {
				n.Labels["theirs"], n.Annotations["theirs"] = strconv.Itoa(i), strconv.Itoa(i)
				n.Spec.Taints = []v1.Taint{{Key: "theirs", Value: strconv.Itoa(i), Effect: v1.TaintEffectPreferNoSchedule}}
				n.Status.NodeInfo.KubeletVersion, n.Status.Phase = "v0", "Odd"
				n.Status.Conditions = []v1.NodeCondition{{Type: "Theirs", Status: "Odd"}, {Type: v1.NodeReady, Status: v1.ConditionUnknown}}
				n.Labels["kubernetes.io/os"] = "plan9"
				n.Status.Allocatable, n.Status.Addresses = nil, nil
			})
			pass(time.Second)
		}
		pass(11 * time.Second)
		require.LessOrEqual(t, len(api.Calls(nodetest.PatchNode)), 62)
		n := api.Node("n")
		require.Equal(t, "True KubeletReady", ready(n))
		require.Len(t, n.Status.Conditions, 5)
		require.NotNil(t, nodestatus.Condition(&n.Status, "Theirs"))
		require.Equal(t, "linux", n.Labels["kubernetes.io/os"])
		require.Equal(t, []string{"599", "599", "599"}, []string{n.Labels["theirs"], n.Annotations["theirs"], n.Spec.Taints[0].Value})
		require.NotEmpty(t, n.Status.Allocatable)
		require.NotEmpty(t, n.Status.Addresses)
		require.NoError(t, r.Health())
	})
}

func TestSchedulable(t *testing.T) {
	bubble(t, func(t *testing.T, api *nodetest.API) {
		api.Edit("n", func(n *v1.Node) { n.Spec.Unschedulable = true })
		r := newRig(t, api, nil)
		pass(time.Minute)
		require.NotContains(t, r.eventReasons(), "NodeNotSchedulable", "it was unschedulable before")
		for _, want := range []string{"NodeSchedulable", "NodeNotSchedulable"} {
			api.Edit("n", func(n *v1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
			pass(time.Minute)
			require.Equal(t, want, r.eventReasons()[len(r.eventReasons())-1])
		}
	})
}

// A watch saves reads. It may be late or empty.
func TestCachedNode(t *testing.T) {
	var cached, told atomic.Pointer[v1.Node]
	watching := func(r *rig) { r.cfg.Cached, r.cfg.OnNode = cached.Load, told.Store }
	rigged(t, nil, watching, func(t *testing.T, r *rig, api *nodetest.API) {
		pass(time.Minute)
		cached.Store(api.Node("n"))
		pass(20 * time.Second)
		api.Forget()
		pass(time.Minute)
		require.Empty(t, api.Calls(nodetest.GetNode))

		// From now on the watch lags behind.
		r.set(func() { r.pressure.PID = true })
		pass(time.Minute)
		require.Len(t, api.Calls(nodetest.PatchNode), 1)
		require.Equal(t, "NodeHasInsufficientPID", r.eventReasons()[len(r.eventReasons())-1])
		require.Equal(t, api.Node("n").ResourceVersion, told.Load().ResourceVersion)

		// The node is deleted, and the watch sees it sooner or later.
		api.Delete("n")
		pass(time.Minute)
		require.Nil(t, api.Node("n"))
		cached.Store(nil)
		pass(20 * time.Second)
		require.NotNil(t, api.Node("n"))
		require.NoError(t, r.Health())
	})
}

// Addresses that cannot be determined stay as reported.
func TestAddressesThatCannotBeFound(t *testing.T) {
	var gone atomic.Bool
	change := func(r *rig) {
		r.cfg.Addressing.Network.DefaultRoute = func(netip.Addr) (netip.Addr, error) {
			if gone.Load() {
				return netip.Addr{}, errors.New("no route")
			}
			return netip.MustParseAddr("10.0.0.1"), nil
		}
	}
	rigged(t, nil, change, func(t *testing.T, r *rig, api *nodetest.API) {
		pass(time.Second)
		before := api.Node("n").Status.Addresses
		require.Len(t, before, 2)
		gone.Store(true)
		pass(time.Minute)
		require.Equal(t, before, api.Node("n").Status.Addresses)
		require.Equal(t, 1, r.logCount("no route"))
	})
}

func TestRunOnce(t *testing.T) {
	rigged(t, nil, nil, func(t *testing.T, r *rig, _ *nodetest.API) {
		pass(time.Second)
		require.ErrorIs(t, r.Run(t.Context()), node.ErrAlreadyRun)
	})
}

// An agent that is stopped while the API hangs ends at once.
func TestStopDuringAnOutage(t *testing.T) {
	for _, after := range []time.Duration{0, time.Minute} {
		var away atomic.Bool
		away.Store(after == 0)
		rigged(t, hanging(&away), nil, func(t *testing.T, r *rig, api *nodetest.API) {
			pass(after)
			away.Store(true)
			pass(25 * time.Second)
			stopped := time.Now()
			r.stop()
			require.Zero(t, time.Since(stopped))
		})
	}
}

// A call that ignores its context delays no others, and Run's error names it.
func TestCallsThatHang(t *testing.T) {
	var hangs atomic.Bool
	bubble(t, func(t *testing.T, api *nodetest.API) {
		hang := make(chan struct{})
		r := newRig(t, api, func(r *rig) {
			facts := r.cfg.Facts
			r.cfg.Facts = func(ctx context.Context) nodestatus.Facts {
				if hangs.Load() {
					<-hang
				}
				return facts(ctx)
			}
		})
		pass(time.Minute)
		hangs.Store(true)
		pass(time.Minute)
		require.Equal(t, "False KubeletNotReady", ready(api.Node("n")))
		require.Contains(t, nodestatus.Condition(&api.Node("n").Status, v1.NodeReady).Message, "gathering facts")
		require.False(t, expired(api.Lease("n")))
		hangs.Store(false)
		close(hang)
		pass(time.Minute)
		require.Equal(t, "True KubeletReady", ready(api.Node("n")))

		deaf := make(chan struct{})
		api = &nodetest.API{Before: func(context.Context, nodetest.Call) error { <-deaf; return nil }}
		n, err := node.New(node.Config{Name: "n", Nodes: api, Leases: api, Facts: r.facts})
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		begun := time.Now()
		err = n.Run(ctx)
		require.ErrorIs(t, err, node.ErrShutdownTimeout)
		require.ErrorContains(t, err, "creating the node")
		require.ErrorContains(t, err, "reading the lease")
		require.NotContains(t, err.Error(), "gathering facts")
		require.Equal(t, time.Minute+10*time.Second, time.Since(begun))
		close(deaf)
	})
}
