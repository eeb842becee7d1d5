package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
	nodestatus "github.com/podwright/podwright/status/node"
)

// inputs are inputs of a status that are stale until a look at them succeeds.
type inputs struct {
	*rig
	fails bool // looks fail
	looks int
}

func (in *inputs) look(context.Context) (err error) {
	in.set(func() {
		in.looks++
		if in.fails {
			err = errors.New("no such socket")
			return
		}
		in.notReady = nil
	})
	return err
}

func (in *inputs) goStale(why string, fails bool) {
	in.set(func() { in.notReady, in.fails, in.looks = []string{why}, fails, 0 })
}

// A status is sent only after a look at its inputs: at a start, after a suspension, and before the
// node's readiness ends. Inputs that cannot be read delay it by at most 10 s.
func TestStatusFollowsALookAtItsInputs(t *testing.T) {
	const stale = "container runtime status check may not have completed yet"
	started := func(t *testing.T, existing, fails bool, test func(in *inputs, api *nodetest.API)) {
		t.Helper()
		bubble(t, func(t *testing.T, api *nodetest.API) {
			if existing {
				earlier := newRig(t, api, nil)
				pass(time.Minute)
				earlier.stop()
			}
			in := &inputs{fails: fails}
			newRig(t, api, func(r *rig) {
				in.rig = r
				r.notReady = []string{stale}
				r.cfg.Look = in.look
			})
			test(in, api)
		})
	}
	for _, existing := range []bool{false, true} {
		started(t, existing, false, func(in *inputs, api *nodetest.API) {
			pass(time.Minute)
			require.Equal(t, "True KubeletReady", ready(api.Node("n")))
			require.NotContains(t, in.eventReasons(), "NodeNotReady")
			require.LessOrEqual(t, in.looks, 2)
		})
		started(t, existing, true, func(in *inputs, api *nodetest.API) {
			pass(9900 * time.Millisecond)
			if existing {
				require.Equal(t, "True KubeletReady", ready(api.Node("n")))
				require.False(t, expired(api.Lease("n")), "the Lease does not wait")
			} else {
				require.Nil(t, api.Node("n"))
			}
			pass(200 * time.Millisecond)
			require.Equal(t, "False KubeletNotReady", ready(api.Node("n")), "an input that cannot be read")
			require.Equal(t, stale, nodestatus.Condition(&api.Node("n").Status, v1.NodeReady).Message)
			in.set(func() { in.fails, in.notReady = false, nil })
			pass(200 * time.Millisecond)
			require.Equal(t, "True KubeletReady", ready(api.Node("n")))
		})
	}

	started(t, false, false, func(in *inputs, api *nodetest.API) {
		pass(time.Minute)
		begun := len(in.eventReasons())
		in.goStale("container runtime is down", false)
		pass(time.Minute)
		require.Len(t, in.eventReasons(), begun, "the runtime had returned")
		require.Equal(t, 1, in.looks)

		in.Freeze(55 * time.Second)
		in.goStale("container runtime is down", true)
		pass(9 * time.Second)
		require.Len(t, in.eventReasons(), begun, "a suspended runtime returns with the agent")
		in.set(func() { in.fails = false })
		pass(time.Minute)
		require.Len(t, in.eventReasons(), begun)

		in.goStale("container runtime is down", true)
		pass(1100 * time.Millisecond)
		require.Equal(t, "NodeNotReady", in.eventReasons()[begun])
		require.Equal(t, 1, in.looks, "without a suspension one look is enough")
	})
}

// Writes end with Run's context, although the parts of the agent that have
// stopped are not ready.
func TestStoppedNodeWritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, api *nodetest.API) {
		for _, existing := range []bool{false, true} {
			if existing {
				api.Edit("n", func(n *v1.Node) {})
			}
			ctx, stop := context.WithCancel(t.Context())
			n, err := node.New(node.Config{Name: "n", Nodes: api, Leases: api, Facts: func(context.Context) nodestatus.Facts {
				stop()
				api.Forget()
				return nodestatus.Facts{NotReady: []string{"images: the client is closed"}}
			}})
			require.NoError(t, err)
			require.NoError(t, n.Run(ctx))
			require.Empty(t, api.Calls(nodetest.PatchNode, nodetest.CreateNode))
		}
	})
}
