package allocation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
)

// resizeRequest is a pod with an allocation and other requests.
type resizeRequest struct {
	before *v1.Pod
	after  *v1.Pod
}

func requestResize(has *v1.Pod, r v1.ResourceRequirements) resizeRequest {
	return resizeRequest{has, resized(has, r)}
}

// decideAll decides requests and returns the results in the order of the decisions: "+a" granted,
// "?a" deferred, "!a" infeasible.
func decideAll(t *testing.T, fit Fit, waiting map[types.UID]Waiting, wishes ...resizeRequest) (order string, all []Verdict) {
	t.Helper()
	in := Input{Fit: fit, Waiting: waiting, Now: time.Unix(100, 0)}
	granted := map[types.UID]Resources{}
	for _, w := range wishes {
		in.Pods = append(in.Pods, w.after)
		if w.before != nil {
			granted[w.before.UID] = ResourcesOf(w.before)
		}
	}
	in.Granted = func(uid types.UID) (Resources, bool) { r, ok := granted[uid]; return r, ok }
	all = Decide(in)
	for _, v := range all {
		mark := "+"
		switch v.Waiting.Reason {
		case v1.PodReasonDeferred:
			mark = "?"
		case v1.PodReasonInfeasible:
			mark = "!"
		}
		require.Equal(t, v.Granted, mark == "+")
		order += mark + v.Pod.Name + " "
	}
	return order, all
}

func TestDecide(t *testing.T) {
	cpu := func(name, amount string, change ...func(*v1.Pod)) *v1.Pod {
		return newPod(name, with(amount, ""), change...)
	}
	at := func(seconds int64) Waiting {
		return Waiting{Generation: 2, Reason: v1.PodReasonDeferred, Since: time.Unix(seconds, 0)}
	}
	never := func(*v1.Pod, []*v1.Pod) error { return fmt.Errorf("x: %w", &Infeasible{"detail", "never"}) }
	for _, c := range []struct {
		name    string
		fit     Fit
		waiting map[types.UID]Waiting
		wishes  []resizeRequest
		want    string
	}{
		{name: "no resize", fit: never, wishes: []resizeRequest{{cpu("a", "1"), cpu("a", "1")}}},
		{name: "not admitted yet", fit: never, wishes: []resizeRequest{{nil, cpu("a", "1")}}},
		{name: "fits (N16)", fit: node(3000), wishes: []resizeRequest{requestResize(cpu("a", "1"), with("2", ""))}, want: "+a "},
		{name: "does not fit", fit: node(1500), wishes: []resizeRequest{requestResize(cpu("a", "1"), with("2", ""))}, want: "?a "},
		{name: "request above the node's capacity is deferred (N17)", fit: node(1500), wishes: []resizeRequest{requestResize(cpu("a", "1"), with("20", ""))}, want: "?a "},
		{name: "infeasible (N17)", fit: never, wishes: []resizeRequest{requestResize(cpu("a", "1"), with("2", ""))}, want: "!a "},
		{name: "negative", fit: node(1 << 60), wishes: []resizeRequest{requestResize(cpu("a", "1"), with("-2", ""))}, want: "!a "},
		{name: "overflows", fit: node(1 << 60), wishes: []resizeRequest{requestResize(cpu("a", "1"), with("", "100E"))}, want: "!a "},
		{name: "milli-CPU overflows", fit: node(1 << 60), wishes: []resizeRequest{requestResize(cpu("a", "1"), with("1E", ""))}, want: "!a "},
		{name: "room for one of two", fit: node(3000), want: "+a ?b ", wishes: []resizeRequest{
			requestResize(cpu("a", "1"), with("2", "")), requestResize(cpu("b", "1"), with("2", "")),
		}},
		{name: "decreases precede increases of higher priority", fit: node(3000), want: "+b +a ", wishes: []resizeRequest{
			requestResize(cpu("a", "1", withPriority(9)), with("2", "")), requestResize(cpu("b", "2"), with("1", "")),
		}},
		{name: "decrease of memory", fit: node(1 << 60), want: "+b +a ", wishes: []resizeRequest{
			requestResize(newPod("a", with("1", "1Mi")), with("1", "2Mi")), requestResize(newPod("b", with("1", "1Mi"), withPriority(-1)), with("1", "1Ki")),
		}},
		{name: "priority before class", fit: node(3000), want: "+b ?a ", wishes: []resizeRequest{
			requestResize(newPod("a", with("1", "1Mi", "limits")), with("2", "1Mi", "limits")), requestResize(cpu("b", "1", withPriority(1)), with("2", "")),
		}},
		{name: "class before waiting time", fit: node(3000), want: "+b ?a ", waiting: map[types.UID]Waiting{"a": at(1)}, wishes: []resizeRequest{
			requestResize(cpu("a", "1"), with("2", "")), requestResize(newPod("b", with("1", "1Mi", "limits")), with("2", "1Mi", "limits")),
		}},
		{name: "waiting time", fit: node(1 << 60), want: "+c +b +a +d ", waiting: map[types.UID]Waiting{"a": at(3), "b": at(2), "c": at(1)}, wishes: []resizeRequest{
			requestResize(cpu("d", "1"), with("2", "")), requestResize(cpu("a", "1"), with("2", "")), requestResize(cpu("b", "1"), with("2", "")), requestResize(cpu("c", "1"), with("2", "")),
		}},
		{name: "pod being deleted", fit: node(3000), want: "?b ", wishes: []resizeRequest{
			requestResize(cpu("a", "2", leaving), with("1", "")), requestResize(cpu("b", "1"), with("2", "")),
		}},
		{name: "static pods get their requests", fit: node(3000), want: "+s ?b ", wishes: []resizeRequest{
			requestResize(cpu("b", "1"), with("2", "")), requestResize(cpu("s", "1", static), with("7", "")),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			order, _ := decideAll(t, c.fit, c.waiting, c.wishes...)
			require.Equal(t, c.want, order)
		})
	}
}

// Pod-level resources are resized like a container's.
func TestDecidePodLevel(t *testing.T) {
	r := with("1", "")
	has := newPod("a", v1.ResourceRequirements{}, func(pod *v1.Pod) { pod.Spec.Resources = &r })
	more := with("2", "")
	now := has.DeepCopy()
	now.Spec.Resources = &more
	order, _ := decideAll(t, node(0), nil, resizeRequest{has, now})
	require.Equal(t, "+a ", order)
	require.True(t, isIncrease(has, now))
}

func TestVerdictIsNew(t *testing.T) {
	w := requestResize(newPod("a", with("1", "")), with("2", ""))
	early := time.Unix(1, 0)
	refuse := func(*v1.Pod, []*v1.Pod) error { return syncloop.Reject("OutOfcpu", "no cpu") }
	for _, c := range []struct {
		before    Waiting
		isNew     bool
		since     time.Time
		wasWaited bool
	}{
		{Waiting{}, true, time.Unix(100, 0), false},
		{Waiting{2, v1.PodReasonDeferred, "other words", early}, false, early, true},
		{Waiting{1, v1.PodReasonDeferred, "no cpu", early}, true, early, true},
		{Waiting{2, v1.PodReasonInfeasible, "no cpu", early}, true, time.Unix(100, 0), false},
	} {
		_, all := decideAll(t, refuse, map[types.UID]Waiting{"a": c.before}, w)
		require.Equal(t, []Verdict{{
			Pod: w.after, Waiting: Waiting{2, v1.PodReasonDeferred, "no cpu", c.since}, IsNew: c.isNew, WasDeferred: c.wasWaited,
		}}, all)
	}
}

func TestInvalidAmounts(t *testing.T) {
	for text, r := range map[string]v1.ResourceRequirements{
		"container c: resources.requests[cpu]: -1 is negative":                              with("-1", ""),
		"container c: resources.requests[memory]: 100E must be at most 9223372036854775807": with("", "100E"),
	} {
		_, all := decideAll(t, node(0), nil, requestResize(newPod("a", with("1", "1")), r))
		require.Equal(t, text, all[0].Waiting.Message)
		require.Equal(t, detailInvalid, all[0].Detail)
	}
	most := with("9223372036854775807m", "9223372036854775807")
	require.NoError(t, Resources{PodLevelResources: &most}.check())
	negative := with("-1", "")
	require.ErrorContains(t, Resources{PodLevelResources: &negative}.check(), "resources.requests[cpu]: -1 is negative")
}
