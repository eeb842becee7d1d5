package garbage

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/internal/testpods"
	"github.com/podwright/podwright/pleg/observed"
)

// deal returns small numbers from the bytes of a fuzzer, and 0 after the last byte.
type deal []byte

func (d *deal) next(n int) int {
	if len(*d) == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return int(b) % n
}

// addDeals adds fixed pseudo-random seeds.
func addDeals(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		data := make([]byte, 160)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
}

var names = []string{"init", "side", "app", "log", "debug"}

func (d *deal) policy() Policy {
	return Policy{
		MinAge:          time.Duration(d.next(3)) * 10 * time.Second,
		MaxPerContainer: d.next(4) - 1,
		KeepNone:        d.next(4) == 0,
		MaxTotal:        d.next(6),
	}
}

// containers returns up to 24 containers of up to three pods.
func (d *deal) containers() []container {
	var out []container
	for i := range d.next(25) {
		out = append(out, container{
			unit:    unit{uid: types.UID(fmt.Sprint(d.next(3))), name: names[d.next(len(names))]},
			id:      fmt.Sprintf("c%02d", i),
			state:   observed.State(d.next(4)),
			attempt: uint32(d.next(4)),
			created: now.Add(-time.Duration(d.next(40)) * time.Second),
		})
	}
	return out
}

// without returns the remaining containers.
func without(all, gone []container) []container {
	return slices.DeleteFunc(slices.Clone(all), func(c container) bool {
		return slices.ContainsFunc(gone, func(g container) bool { return g.id == c.id })
	})
}

// For every list and policy, no container is removed that is running, about to start, or decisive
// for a start; the limits hold for all other containers; and a second collection removes none.
func FuzzPlanContainers(f *testing.F) {
	f.Add([]byte{0, 2, 1, 0, 20, 1, 2, 3, 0, 5, 1, 2, 3, 1, 4, 0, 0, 3, 2, 1})
	f.Add([]byte{1, 0, 0, 3, 24, 0, 0, 1, 3, 9, 0, 0, 1, 2, 8, 0, 0, 3, 1, 7})
	addDeals(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := deal(data)
		policy, gone := d.policy(), types.UID(fmt.Sprint(d.next(4)))
		all := d.containers()
		removable := func(uid types.UID) bool { return uid == gone }
		plan := planContainers(all, policy, removable, now)
		left := without(all, plan)
		require.Len(t, left, len(all)-len(plan), "nothing is removed twice")
		require.Empty(t, planContainers(left, policy, removable, now), "a second round")

		surplus := 0
		for _, c := range plan {
			require.NotEqual(t, observed.StateRunning, c.state)
			require.False(t, removable(c.uid) == false && decides(all, c), "%+v is needed", c)
			require.GreaterOrEqual(t, now.Sub(c.created), policy.MinAge)
		}
		kept := map[unit]int{}
		for _, c := range left {
			if c.state == observed.StateRunning || now.Sub(c.created) < policy.MinAge || !removable(c.uid) && decides(all, c) {
				if c.state != observed.StateRunning && c.state != observed.StateCreated && now.Sub(c.created) >= policy.MinAge {
					kept[c.unit]++ // a dead needed container counts
				}
				continue
			}
			require.False(t, removable(c.uid), "%+v stays without a reason", c)
			kept[c.unit]++
			surplus++
		}
		for unit, n := range kept {
			if limit := policy.perContainer(); limit >= 0 {
				require.LessOrEqual(t, n, max(limit, 1), "%v", unit)
			}
		}
		if policy.MaxTotal > 0 {
			require.LessOrEqual(t, surplus, policy.MaxTotal)
		}
	})
}

// decides reports whether a container is the newest of its name, or the newest that ran.
func decides(all []container, c container) bool {
	return !slices.ContainsFunc(all, func(other container) bool {
		newer := cmp.Or(cmp.Compare(other.attempt, c.attempt), other.created.Compare(c.created), cmp.Compare(c.id, other.id)) > 0
		ran := c.state == observed.StateCreated || other.state != observed.StateCreated
		return other.unit == c.unit && newer && ran
	})
}

// Garbage collection does not change the decisions about a pod that stays: neither a completed
// init container runs again, nor one with policy Never.
func FuzzGCKeepsDecisions(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 0, 9, 0, 0, 3, 0, 5, 0, 1, 0, 2, 1, 6, 0, 2, 0, 3, 2, 7, 1, 1})
	f.Add([]byte{0, 1, 0, 1, 1, 20, 1, 1, 3, 3, 9, 0, 1, 1, 3, 2, 8, 1, 0, 0, 3, 1, 7, 0, 0})
	addDeals(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := deal(data)
		policy := d.policy()
		policies := []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}
		pod := testpods.New("app", "log")
		pod.Spec.InitContainers = []v1.Container{
			{Name: "init", Image: "busybox"}, {Name: "side", Image: "busybox", RestartPolicy: new(v1.ContainerRestartPolicyAlways)},
		}
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}}
		pod.Spec.RestartPolicy = policies[d.next(3)]
		sandboxes := []observed.Sandbox{{ID: "new", State: observed.SandboxState(1 + d.next(2)), Attempt: 1}, {ID: "old", State: observed.SandboxNotReady}}
		all := d.containers()
		for i := range all {
			all[i].uid = pod.UID
		}
		codes := make([]int32, len(all))
		inOld := make([]bool, len(all))
		for i := range all {
			// An instance in a new sandbox has a higher attempt than all earlier ones.
			codes[i], inOld[i] = int32(d.next(2)), all[i].attempt == 0
		}
		// Any sync removes a created container that has a newer instance.
		all = slices.DeleteFunc(slices.Clone(all), func(c container) bool {
			return c.state == observed.StateCreated && !decides(all, c)
		})
		statusOf := func(list []container) *observed.Pod {
			s := &observed.Pod{UID: pod.UID, Sandboxes: sandboxes}
			for _, c := range list {
				i, _ := strconv.Atoi(c.id[1:])
				status := observed.Container{
					ID: observed.ContainerID{ID: c.id}, Name: c.name, State: c.state, SandboxID: "new", CreatedAt: c.created,
					RestartCount: int32(c.attempt), ExitCode: codes[i],
				}
				if inOld[i] {
					status.SandboxID = "old"
				}
				s.Containers = append(s.Containers, status)
			}
			slices.SortFunc(s.Containers, func(a, b observed.Container) int {
				return cmp.Or(cmp.Compare(b.RestartCount, a.RestartCount), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID.ID, b.ID.ID))
			})
			return s
		}
		plan := planContainers(all, policy, func(types.UID) bool { return false }, now)
		before, _ := actions.Compute(actions.Input{Pod: pod, Status: statusOf(all)})
		after, err := actions.Compute(actions.Input{Pod: pod, Status: statusOf(without(all, plan))})
		require.NoError(t, err)
		t.Logf("policy %+v\nbefore %v: %v\nremoved %v", policy, statusOf(all).Containers, before, plan)
		require.Equal(t, before.KillPod, after.KillPod)
		require.Equal(t, before.CreateSandbox, after.CreateSandbox)
		require.Equal(t, before.StartInit, after.StartInit)
		require.Equal(t, before.StartRegular, after.StartRegular)
		require.Equal(t, before.StartEphemeral, after.StartEphemeral)
	})
}

// A sandbox is kept if and only if it is ready, has a container, or is the newest of a pod that
// stays.
func FuzzPlanSandboxes(f *testing.F) {
	f.Add([]byte{1, 9, 0, 0, 0, 0, 1, 0, 1, 0, 1, 2, 1, 1, 0, 0, 3, 2, 0, 0, 0, 4})
	addDeals(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := deal(data)
		gone := types.UID(fmt.Sprint(d.next(4)))
		var all []sandbox
		for i := range d.next(20) {
			all = append(all, sandbox{
				uid: types.UID(fmt.Sprint(d.next(3))), id: fmt.Sprintf("s%02d", i), ready: d.next(3) == 0, holds: d.next(3) == 0,
				attempt: uint32(d.next(4)), created: now.Add(-time.Duration(d.next(40)) * time.Second),
			})
		}
		plan := planSandboxes(all, func(uid types.UID) bool { return uid == gone })
		for _, sb := range all {
			newest := !slices.ContainsFunc(all, func(o sandbox) bool {
				newer := cmp.Or(cmp.Compare(o.attempt, sb.attempt), o.created.Compare(sb.created), cmp.Compare(sb.id, o.id)) > 0
				return o.uid == sb.uid && newer
			})
			keep := sb.ready || sb.holds || newest && sb.uid != gone
			require.Equal(t, keep, !slices.Contains(plan, sb.id), "%+v", sb)
		}
	})
}
