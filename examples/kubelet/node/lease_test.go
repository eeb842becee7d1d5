package node_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
)

// expired tells whether a Lease has run out.
func expired(l *coordinationv1.Lease) bool {
	return time.Since(l.Spec.RenewTime.Time) > time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second
}

func TestLeaseIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := &nodetest.API{}
		r := newRig(t, api, nil)
		pass(time.Second)
		lease := api.Lease("n")
		require.Equal(t, "n", *lease.Spec.HolderIdentity)
		require.EqualValues(t, 40, *lease.Spec.LeaseDurationSeconds)
		require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: api.Node("n").UID}}, lease.OwnerReferences)
		require.Equal(t, "kube-node-lease", lease.Namespace)
		pass(time.Hour)
		require.InDelta(t, 3600/10.2, len(api.Calls(nodetest.UpdateLease)), 10)
		require.LessOrEqual(t, len(api.Calls(nodetest.GetLease)), 3, "its version is known")
		require.False(t, expired(api.Lease("n")))
		require.NoError(t, r.Health())

		// Somebody takes it away.
		api.Delete("n")
		pass(30 * time.Second)
		require.Equal(t, api.Node("n").UID, api.Lease("n").OwnerReferences[0].UID)
		require.NoError(t, r.Health())
	})
}

// N7. What was asked for meanwhile does not come in a burst.
func TestLeaseThroughAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var down atomic.Bool
		api := &nodetest.API{}
		api.Before = func(ctx context.Context, _ nodetest.Call) error {
			if down.Load() {
				<-ctx.Done() // nobody answers
				return ctx.Err()
			}
			return nil
		}
		r := newRig(t, api, nil)
		pass(time.Minute)
		down.Store(true)
		pass(45 * time.Second)
		lease := api.Lease("n")
		require.True(t, expired(lease))
		require.ErrorIs(t, r.Health(), context.DeadlineExceeded)
		r.set(func() { require.Positive(t, r.failures) })
		pass(6 * time.Hour)
		calls := len(api.Calls())
		require.Less(t, calls, 3*6*3600/10, "bounded")
		require.Equal(t, 1, r.said("part=lease"))
		require.Equal(t, 1, r.said("part=status"))

		down.Store(false)
		api.Forget()
		pass(20 * time.Second)
		require.False(t, expired(api.Lease("n")))
		require.Equal(t, lease.Spec.HolderIdentity, api.Lease("n").Spec.HolderIdentity)
		require.True(t, api.Lease("n").Spec.RenewTime.After(lease.Spec.RenewTime.Time))
		require.LessOrEqual(t, len(api.Calls(nodetest.UpdateLease)), 3)
		require.LessOrEqual(t, len(api.Calls(nodetest.PatchNode)), 1)
		require.NoError(t, r.Health())
	})
}

// An API that takes two seconds for each call.
func TestSlowAPI(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := &nodetest.API{Before: func(ctx context.Context, _ nodetest.Call) error {
			select {
			case <-time.After(2 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		r := newRig(t, api, nil)
		for range 100 {
			pass(10 * time.Second)
			require.True(t, api.Lease("n") == nil || !expired(api.Lease("n")))
		}
		require.NoError(t, r.Health())
		require.Zero(t, r.failures)
	})
}

// Answers that get lost after the call has had its effect make no twin of oneself.
func TestLostAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var updates, others atomic.Int64
		api := &nodetest.API{After: func(_ context.Context, c nodetest.Call) error {
			if c.Verb == nodetest.UpdateLease && updates.Add(1)%2 == 0 || c.Verb != nodetest.UpdateLease && others.Add(1)%3 == 0 {
				return errors.New("connection reset")
			}
			return nil
		}}
		r := newRig(t, api, nil)
		for range 200 {
			pass(7 * time.Second)
			require.Empty(t, r.State().Twin)
			require.True(t, api.Lease("n") == nil || !expired(api.Lease("n")))
		}
		require.Zero(t, r.said("another agent"))
		require.Greater(t, updates.Load(), int64(100))
	})
}

// Two agents with one name: both say so, whether on one machine or on two.
func TestTwins(t *testing.T) {
	for name, machine := range map[string]string{"on one machine": "machine", "on two machines": "other"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				api := &nodetest.API{}
				first := newRig(t, api, nil)
				pass(65 * time.Second)
				require.NoError(t, first.Health())
				second := newRig(t, api, func(r *rig) { r.machine.ID = machine })
				pass(time.Second)
				if machine == "other" {
					require.ErrorIs(t, second.Health(), node.ErrTwin, "at once")
					require.ErrorContains(t, second.Health(), "machine ID machine instead of other")
				}
				pass(25 * time.Second)
				for _, r := range []*rig{first, second} {
					require.ErrorIs(t, r.Health(), node.ErrTwin)
					require.Equal(t, 1, r.said("level=ERROR msg=\"another agent seems to run under the name"))
				}
				api.Forget()
				pass(20 * time.Minute)
				require.Less(t, len(api.Calls()), 2*5*1200/10, "two calls for a status and three for a lease, of each in 10 s")
				require.Equal(t, 1, second.said("msg=\"another agent seems"), "said once")
				require.False(t, expired(api.Lease("n")))

				// It is well again when the other one has gone.
				first.stop()
				pass(2 * time.Minute)
				require.NoError(t, second.Health())
				require.Equal(t, machine, api.Node("n").Status.NodeInfo.MachineID)
				require.NotContains(t, second.happened(), "Rebooted")
			})
		})
	}
}

func TestLeaseOfAnotherHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := &nodetest.API{}
		other := "somebody"
		api.EditLease("n", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &other })
		r := newRig(t, api, nil)
		pass(time.Second)
		require.ErrorContains(t, r.Health(), `the lease is held by "somebody"`)
		require.Equal(t, "n", *api.Lease("n").Spec.HolderIdentity)
		pass(2 * time.Minute)
		require.NoError(t, r.Health())
	})
}

// A machine that was set up anew, and whose predecessor is long gone, has no twin.
func TestMovedNodeIsNoTwin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		api := &nodetest.API{}
		first := newRig(t, api, nil)
		pass(time.Minute)
		first.stop()
		pass(time.Minute)
		second := newRig(t, api, func(r *rig) { r.machine = first.machine; r.machine.ID, r.machine.BootID = "new", "new" })
		pass(time.Minute)
		require.NoError(t, second.Health())
		require.Equal(t, []string{"Starting", "Rebooted"}, second.happened())
		require.Equal(t, v1.NodeReady, api.Node("n").Status.Conditions[3].Type)
	})
}
