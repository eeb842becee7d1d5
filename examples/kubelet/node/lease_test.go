package node_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
)

func expired(l *coordinationv1.Lease) bool {
	return time.Since(l.Spec.RenewTime.Time) > time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second
}

func TestLeaseIsRenewed(t *testing.T) {
	rigged(t, nil, nil, func(t *testing.T, r *rig, api *nodetest.API) {
		pass(time.Second)
		lease := api.Lease("n")
		require.Equal(t, "n", *lease.Spec.HolderIdentity)
		require.EqualValues(t, 40, *lease.Spec.LeaseDurationSeconds)
		require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: api.Node("n").UID}}, lease.OwnerReferences)
		require.Equal(t, "kube-node-lease", lease.Namespace)
		pass(time.Hour)
		require.InDelta(t, 3600/10.2, len(api.Calls(nodetest.UpdateLease)), 10)
		require.LessOrEqual(t, len(api.Calls(nodetest.GetLease)), 3, "a renewal needs no read of the lease")
		require.False(t, expired(api.Lease("n")))
		require.NoError(t, r.Health())
	})
}

// N7: after an outage there is no burst of renewals.
func TestLeaseThroughAnOutage(t *testing.T) {
	var down atomic.Bool
	rigged(t, hanging(&down), nil, func(t *testing.T, r *rig, api *nodetest.API) {
		pass(time.Minute)
		down.Store(true)
		pass(45 * time.Second)
		lease := api.Lease("n")
		require.True(t, expired(lease))
		require.ErrorIs(t, r.Health(), context.DeadlineExceeded)
		r.set(func() { require.Positive(t, r.failures) })
		pass(6 * time.Hour)
		require.Less(t, len(api.Calls()), 3*6*3600/10, "bounded")
		require.Equal(t, 1, r.logCount("part=lease"))
		require.Equal(t, 1, r.logCount("part=status"))

		down.Store(false)
		api.Forget()
		pass(20 * time.Second)
		require.False(t, expired(api.Lease("n")))
		require.Equal(t, lease.Spec.HolderIdentity, api.Lease("n").Spec.HolderIdentity)
		require.LessOrEqual(t, len(api.Calls(nodetest.UpdateLease)), 3)
		require.LessOrEqual(t, len(api.Calls(nodetest.PatchNode)), 1)
		require.NoError(t, r.Health())
	})
}

// With a slow API, with errors of all kinds, and with responses lost after their effect, the node
// stays ready and leased, and reports no other agent.
func TestFaultyAPI(t *testing.T) {
	var mu sync.Mutex
	calls := map[string]int{}
	updates, others := 0, 0
	for name, api := range map[string]*nodetest.API{
		"slow": {Before: func(ctx context.Context, _ nodetest.Call) error {
			select {
			case <-time.After(2 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}},
		"errors": {Before: func(_ context.Context, c nodetest.Call) error {
			mu.Lock()
			defer mu.Unlock()
			calls[c.Verb]++
			return []error{
				apierrors.NewTooManyRequests("slow down", 1), apierrors.NewInternalError(errors.New("etcd")),
				apierrors.NewConflict(v1.Resource("nodes"), "n", errors.New("another client was faster")), nil, nil,
			}[calls[c.Verb]%5]
		}},
		"lost answers": {After: func(_ context.Context, c nodetest.Call) error {
			mu.Lock()
			defer mu.Unlock()
			count, each := &others, 3
			if c.Verb == nodetest.UpdateLease {
				count, each = &updates, 2
			}
			if *count++; *count%each == 0 {
				return errors.New("connection reset")
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, api, nil)
				for range 200 {
					pass(7 * time.Second)
					require.Empty(t, r.State().Twin)
					require.True(t, api.Lease("n") == nil || !expired(api.Lease("n")))
				}
				require.Equal(t, "True KubeletReady", ready(api.Node("n")))
				require.Zero(t, r.logCount("another agent"))
				require.Greater(t, len(api.Calls(nodetest.UpdateLease)), 100)
				if name == "slow" {
					require.NoError(t, r.Health())
					require.Zero(t, r.failures)
				}
			})
		})
	}
}

// Two agents with one name both report it, on one machine or on two.
func TestTwins(t *testing.T) {
	for name, machine := range map[string]string{"on one machine": "machine", "on two machines": "other"} {
		t.Run(name, func(t *testing.T) {
			rigged(t, nil, nil, func(t *testing.T, first *rig, api *nodetest.API) {
				pass(65 * time.Second)
				require.NoError(t, first.Health())
				second := newRig(t, api, func(r *rig) { r.machine.ID = machine })
				pass(time.Second)
				if machine == "other" {
					require.ErrorIs(t, second.Health(), node.ErrTwin, "at once")
					require.ErrorContains(t, second.Health(), "machine ID machine, not other")
				}
				pass(25 * time.Second)
				for _, r := range []*rig{first, second} {
					require.ErrorIs(t, r.Health(), node.ErrTwin)
					require.Equal(t, 1, r.logCount("level=ERROR msg=\"another agent seems to use the name"))
				}
				api.Forget()
				pass(20 * time.Minute)
				require.Less(t, len(api.Calls()), 2*5*1200/10, "two calls for a status and three for a lease, of each in 10 s")
				require.Equal(t, 1, second.logCount("msg=\"another agent seems"), "logged once")
				require.False(t, expired(api.Lease("n")))

				// The report ends after the other agent has stopped.
				first.stop()
				pass(2 * time.Minute)
				require.NoError(t, second.Health())
				require.Equal(t, machine, api.Node("n").Status.NodeInfo.MachineID)
				require.NotContains(t, second.eventReasons(), "Rebooted")
			})
		})
	}
}

func TestLeaseOfAnotherHolder(t *testing.T) {
	bubble(t, func(t *testing.T, api *nodetest.API) {
		api.EditLease("n", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("somebody") })
		r := newRig(t, api, nil)
		pass(time.Second)
		require.ErrorContains(t, r.Health(), `the lease has the holder "somebody"`)
		require.Equal(t, "n", *api.Lease("n").Spec.HolderIdentity)
		pass(2 * time.Minute)
		require.NoError(t, r.Health())
	})
}

// N41: a reboot is reported once. A newly set up machine whose predecessor stopped long ago reports
// no other agent.
func TestReboot(t *testing.T) {
	rigged(t, nil, nil, func(t *testing.T, before *rig, api *nodetest.API) {
		pass(time.Second)
		before.stop()
		pass(time.Minute)
		for i, c := range []struct {
			machine, boot string
			want          []string
		}{
			{"machine", "next", []string{"Starting", "Rebooted"}}, {"machine", "next", []string{"Starting"}}, {"new", "new", []string{"Starting", "Rebooted"}},
		} {
			r := newRig(t, api, func(r *rig) { r.machine.ID, r.machine.BootID = c.machine, c.boot })
			pass(10 * time.Minute)
			require.Equal(t, c.want, r.eventReasons(), i)
			require.NoError(t, r.Health())
			require.Equal(t, c.boot, api.Node("n").Status.NodeInfo.BootID)
			r.stop()
			pass(time.Minute)
		}
	})
}
