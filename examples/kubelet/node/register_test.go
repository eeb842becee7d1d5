package node_test

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
)

const attach = "volumes.kubernetes.io/controller-managed-attach-detach"

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("not allowed"))
}

// N1: the node is created with all its data.
func TestRegistrationCreatesTheNode(t *testing.T) {
	bubble(t, func(t *testing.T, api *nodetest.API) {
		taints := []v1.Taint{{Key: "a", Value: "b", Effect: v1.TaintEffectNoSchedule}}
		configure := func(r *rig) {
			r.cfg.Labels, r.cfg.Taints, r.cfg.ProviderID = map[string]string{"example.com/disk": "ssd"}, taints, "cloud://n"
			r.cfg.Hostname = "h"
		}
		tries := 0
		first := newRig(t, api, func(r *rig) { configure(r); r.cfg.OnRegister = func() { r.set(func() { tries++ }) } })
		pass(time.Second)
		first.set(func() { require.Equal(t, 1, tries) })
		n := api.Node("n")
		require.Equal(t, map[string]string{
			"kubernetes.io/hostname": "h", "kubernetes.io/os": "linux", "kubernetes.io/arch": runtime.GOARCH,
			"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": runtime.GOARCH, "example.com/disk": "ssd",
		}, n.Labels)
		require.Equal(t, taints, n.Spec.Taints)
		require.Equal(t, "cloud://n", n.Spec.ProviderID)
		require.Equal(t, map[string]string{attach: "true"}, n.Annotations)
		require.Equal(t, "True KubeletReady", ready(n))
		require.Equal(t, []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeHostName, Address: "h"}}, n.Status.Addresses)
		require.Len(t, api.Calls(nodetest.CreateNode), 1)
		require.Empty(t, api.Calls(nodetest.PatchNode), "a node is made with its status")
		require.Equal(t, []string{"Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"}, first.eventReasons())
		require.NoError(t, first.Health())
		require.True(t, first.State().Ready)
		first.stop()

		// The next agent changes only the heartbeat.
		second := newRig(t, api, configure)
		pass(time.Second)
		again := api.Node("n")
		require.Equal(t, n.ObjectMeta.Labels, again.Labels)
		require.Equal(t, n.Spec, again.Spec)
		require.Equal(t, n.UID, again.UID)
		require.Len(t, api.Calls(nodetest.PatchNode), 1)
		require.Equal(t, []string{"Starting"}, second.eventReasons(), "a restart causes no events of the node")
		require.NoError(t, second.Health(), "an earlier agent on this machine is not reported as another agent")
	})
}

// N2: an existing node is corrected.
func TestRegistrationCorrectsTheNode(t *testing.T) {
	for name, refuse := range map[string]func(context.Context, nodetest.Call) error{
		"exists": nil,
		"may not be made": func(_ context.Context, c nodetest.Call) error {
			if c.Verb == nodetest.CreateNode {
				return forbidden()
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, api *nodetest.API) {
				api.Before = refuse
				api.Edit("n", func(n *v1.Node) {
					n.Labels = map[string]string{"kubernetes.io/os": "plan9", "theirs": "yes", "topology.kubernetes.io/zone": "old"}
					n.Annotations = map[string]string{"theirs": "yes"}
					n.Spec.Taints = []v1.Taint{{Key: "theirs", Effect: v1.TaintEffectNoExecute}}
					n.Status.Capacity = v1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi"), "example.com/gpu": resource.MustParse("2")}
					n.Status.Allocatable = n.Status.Capacity.DeepCopy()
					n.Status.Conditions = []v1.NodeCondition{{Type: "Theirs", Status: v1.ConditionTrue}}
				})
				newRig(t, api, func(r *rig) {
					r.cfg.Labels = map[string]string{"topology.kubernetes.io/zone": "new", "example.com/late": "x"}
					r.cfg.Taints = []v1.Taint{{Key: "ours", Effect: v1.TaintEffectNoExecute}}
					r.cfg.ResetExtended = true
				})
				pass(5 * time.Second)
				n := api.Node("n")
				require.Len(t, api.Calls(nodetest.PatchNode), 1)
				require.Equal(t, "linux", n.Labels["kubernetes.io/os"])
				require.Equal(t, "new", n.Labels["topology.kubernetes.io/zone"])
				require.Equal(t, "yes", n.Labels["theirs"])
				require.NotContains(t, n.Labels, "example.com/late", "only labels with a meaning to Kubernetes")
				require.Equal(t, map[string]string{"theirs": "yes", attach: "true"}, n.Annotations)
				require.Equal(t, "theirs", n.Spec.Taints[0].Key)
				require.Len(t, n.Spec.Taints, 1, "only new nodes get taints")
				require.NotContains(t, n.Status.Capacity, v1.ResourceName("hugepages-2Mi"))
				require.True(t, n.Status.Capacity.Name("example.com/gpu", resource.DecimalSI).IsZero())
				require.True(t, n.Status.Allocatable.Name("example.com/gpu", resource.DecimalSI).IsZero())
				require.Equal(t, v1.NodeConditionType("Theirs"), n.Status.Conditions[0].Type)
				require.Equal(t, "True KubeletReady", ready(n))

				// Later rounds keep changes by others, except required values.
				api.Edit("n", func(n *v1.Node) {
					n.Status.Capacity["example.com/gpu"] = resource.MustParse("3")
					n.Labels["topology.kubernetes.io/zone"], n.Labels["kubernetes.io/arch"] = "moved", "vax"
				})
				pass(11 * time.Second)
				n = api.Node("n")
				require.EqualValues(t, 3, n.Status.Allocatable.Name("example.com/gpu", resource.DecimalSI).Value())
				require.Equal(t, "moved", n.Labels["topology.kubernetes.io/zone"])
				require.NotEqual(t, "vax", n.Labels["kubernetes.io/arch"])
			})
		})
	}
}

func TestRegistrationIsRetried(t *testing.T) {
	var up atomic.Bool
	refuse := func(context.Context, nodetest.Call) error {
		if up.Load() {
			return nil
		}
		return errors.New("connection refused")
	}
	rigged(t, refuse, nil, func(t *testing.T, r *rig, api *nodetest.API) {
		begun := time.Now()
		pass(time.Hour) // A13
		require.ErrorContains(t, r.Health(), "connection refused")
		require.Equal(t, 1, r.logCount("part=registration"), "a lasting failure is logged once")
		calls := api.Calls(nodetest.CreateNode)
		require.InDelta(t, time.Hour/(7*time.Second), len(calls), 10)
		for i, want := range []time.Duration{0, 100, 300, 700, 1500, 3100, 6300, 12700, 19700} {
			require.Equal(t, want*time.Millisecond, calls[i].At.Sub(begun))
		}

		up.Store(true)
		api.Forget()
		pass(8 * time.Second)
		require.NoError(t, r.Health())
		require.Len(t, api.Calls(nodetest.CreateNode), 1)
		require.LessOrEqual(t, len(api.Calls()), 8, "calls did not accumulate: %v", api.Calls())
		require.NotNil(t, api.Lease("n"))
	})
}

func TestNoRegister(t *testing.T) {
	rigged(t, nil, func(r *rig) { r.cfg.NoRegister = true }, func(t *testing.T, r *rig, api *nodetest.API) {
		pass(time.Minute)
		require.Nil(t, api.Node("n"))
		require.ErrorContains(t, r.Health(), "waiting until the node is created")
		require.Nil(t, api.Lease("n"), "no lease without a node")
		api.Edit("n", func(n *v1.Node) { n.Labels = map[string]string{"kubernetes.io/hostname": "theirs"} })
		pass(15 * time.Second)
		require.Equal(t, "True KubeletReady", ready(api.Node("n")))
		require.Equal(t, "theirs", api.Node("n").Labels["kubernetes.io/hostname"])
		require.NoError(t, r.Health())
		require.NotNil(t, api.Lease("n"))
	})
}

func TestExternalCloud(t *testing.T) {
	external := func(r *rig) {
		r.cfg.Addressing.External, r.cfg.Addressing.IPs = true, []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	}
	rigged(t, nil, external, func(t *testing.T, _ *rig, api *nodetest.API) {
		pass(time.Second)
		n := api.Node("n")
		require.Equal(t, []v1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: v1.TaintEffectNoSchedule}}, n.Spec.Taints)
		require.Equal(t, "10.0.0.1", n.Annotations["alpha.kubernetes.io/provided-node-ip"])
		theirs := []v1.NodeAddress{{Type: v1.NodeExternalIP, Address: "198.51.100.1"}}
		api.Edit("n", func(n *v1.Node) { n.Status.Addresses, n.Spec.Taints = theirs, nil })
		pass(time.Minute)
		require.Equal(t, theirs, api.Node("n").Status.Addresses)
		require.Empty(t, api.Node("n").Spec.Taints)
	})
}

// A node that is deleted while the agent runs is created again; one recreated by others is taken
// over.
func TestNodeDeletedUnderTheAgent(t *testing.T) {
	for name, remake := range map[string]bool{"by the agent": false, "by another client": true} {
		t.Run(name, func(t *testing.T) {
			tainted := func(r *rig) { r.cfg.Taints = []v1.Taint{{Key: "ours", Effect: v1.TaintEffectNoExecute}} }
			rigged(t, nil, tainted, func(t *testing.T, r *rig, api *nodetest.API) {
				pass(time.Minute)
				was := api.Node("n").UID
				require.Equal(t, was, api.Lease("n").OwnerReferences[0].UID)
				api.Delete("n")
				if remake {
					api.Edit("n", func(n *v1.Node) { n.Labels = map[string]string{"theirs": "yes"} })
				}
				pass(25 * time.Second)
				n := api.Node("n")
				require.NotNil(t, n)
				require.NotEqual(t, was, n.UID)
				require.Equal(t, "True KubeletReady", ready(n))
				require.Equal(t, "linux", n.Labels["kubernetes.io/os"])
				require.Equal(t, "true", n.Annotations[attach])
				require.Equal(t, remake, len(n.Spec.Taints) == 0)
				require.Equal(t, n.UID, api.Lease("n").OwnerReferences[0].UID)
				require.Equal(t, n.UID, r.State().UID)
				require.NoError(t, r.Health())
				require.Empty(t, r.State().Twin)
				require.Equal(t, 1, r.logCount("was deleted"))
			})
		})
	}
}
