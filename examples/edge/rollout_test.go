package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// set returns a pod per word: its name is the first letter, its UID the word or the part after "=".
func set(words string) (pods []*v1.Pod) {
	for _, word := range strings.Fields(words) {
		uid := word[strings.Index(word, "=")+1:]
		pods = append(pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: word[:1], UID: types.UID(uid)}})
	}
	return pods
}

func words(pods []*v1.Pod) string {
	var all []string
	for _, pod := range pods {
		all = append(all, string(pod.UID))
	}
	return strings.Join(all, " ")
}

func TestNext(t *testing.T) {
	for name, c := range map[string]struct{ desired, served, ready, want string }{
		"the first set starts at once":                      {"a1 b1 c1", "", "", "a1 b1 c1"},
		"the first outdated pod is replaced":                {"a2 b2 c2", "a1 b1 c1", "a1 b1 c1", "a2 b1 c1"},
		"the next pod waits until its predecessor is ready": {"a2 b2 c2", "a2 b1 c1", "b1 c1", "a2 b1 c1"},
		"the next pod follows a ready predecessor":          {"a2 b2 c2", "a2 b1 c1", "a2 b1 c1", "a2 b2 c1"},
		"a newer set replaces a stuck pod first":            {"a3 b3 c3", "a1 b2 c1", "a1 c1", "a1 b3 c1"},
		"also back to the old version":                      {"a1 b1 c1", "a1 b2 c1", "a1 c1", "a1 b1 c1"},
		"a newer set with the stuck pod":                    {"a3 b2 c3", "a1 b2 c1", "a1 c1", "a1 b2 c1"},
		"a newer set without the stuck pod":                 {"a3 c3", "a1 b2 c1", "a1 c1", "a3 c1"},
		"after a reboot no pod is ready":                    {"a2 b2 c2", "a2 b1 c1", "", "a2 b1 c1"},
		"broken pods are replaced one at a time":            {"a2 b2 c2", "a1 b1 c1", "c1", "a2 b1 c1"},
		"removed pods end at once":                          {"a2", "a1 b1 c1", "a1 b1", "a2"},
		"new pods start at once, others wait for them":      {"a2 n1 m1", "a1", "a1", "a1 n1 m1"},
		"others wait for new pods that have started":        {"a2 n1", "a1 n1", "a1", "a1 n1"},
		"a stuck pod does not wait for new pods":            {"a2 b2 n1", "a1 b1", "a1", "a1 b2 n1"},
		"a UID under another name":                          {"b=a1 a=a2", "a1", "a1", "a1 a2"},
		"the order of the newest set":                       {"c2 b2 a2", "a1 b1 c1", "a1 b1 c1", "c2 b1 a1"},
		"no set":                                            {"", "a1", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			isReady := func(uid types.UID) bool { return slices.Contains(strings.Fields(c.ready), string(uid)) }
			got := next(set(c.desired), set(c.served), isReady, false)
			require.Equal(t, c.want, words(got))
			again := next(set(c.desired), got, isReady, false)
			require.Equal(t, c.want, words(again), "reading again changes nothing")
		})
	}
}

// rig is one run of an agent that reads the pods of messages as a Loop does.
type rig struct {
	t *testing.T
	*messages
}

func newRig(t *testing.T, root string, minReady time.Duration) (r *rig, stop func()) {
	merger, err := podsource.NewMerger(podsource.MergerConfig{})
	require.NoError(t, err)
	r = &rig{t, newMessages(merger, podsource.Decoder{}, root, minReady)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.rollout.Run(ctx, r.read) }()
	return r, func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

func (r *rig) read(syncloop.Event) {
	r.served.Pods(source)
	r.served.Handled(source)
}

// expect compares the served pods, after a time.
func (r *rig) expect(after time.Duration, want string) {
	r.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	r.rollout.mu.Lock()
	defer r.rollout.mu.Unlock()
	require.Equal(r.t, want, words(r.rollout.served))
}

func (r *rig) expectProgress(want string) {
	r.t.Helper()
	synctest.Wait()
	require.Equal(r.t, want, fmt.Sprintln(r.rollout.progress()))
}

// deliver passes the pods of a message.
func (r *rig) deliver(pods string) {
	require.NoError(r.t, r.merger.Set(source, set(pods), r.read))
}

// report passes statuses: pods are ready since the named time, or not ready at the zero time.
func (r *rig) report(uids string, since time.Time) {
	for _, pod := range set(uids) {
		c := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse}
		if !since.IsZero() {
			c.Status, c.LastTransitionTime = v1.ConditionTrue, metav1.Time{Time: since}
		}
		require.NoError(r.t, r.rollout.receive(r.t.Context(), pod, &v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{c}}))
	}
	synctest.Wait()
}

// Pods are replaced one at a time, each after its predecessor was ready for minReady.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, stop := newRig(t, t.TempDir(), 10*time.Second)
		defer stop()
		r.deliver("a1 b1 c1")
		r.report("a1 b1 c1", time.Now())
		time.Sleep(11 * time.Second)
		r.deliver("a2 b2 c2")
		r.expect(0, "a2 b1 c1")
		r.report("a1", time.Time{}) // the old version stops
		r.report("a2", time.Now())
		r.expect(9*time.Second, "a2 b1 c1")
		r.report("a2", time.Now()) // it was briefly not ready
		r.expect(9*time.Second, "a2 b1 c1")
		r.expect(time.Second, "a2 b2 c1")

		r.report("b2", time.Now())
		r.report("b2", time.Time{}) // it is stuck
		r.expect(time.Hour, "a2 b2 c1")
		r.expectProgress("[b] [c]\n")
		r.deliver("a1 b1 c1")
		r.expect(0, "a2 b1 c1")
		r.report("b2", time.Now()) // late
		r.expect(time.Hour, "a2 b1 c1")
		r.report("b1", time.Now())
		r.expect(time.Hour, "a1 b1 c1")
		r.report("a1", time.Now())
		r.expect(time.Hour, "a1 b1 c1")
		r.expectProgress("[] []\n")
	})
}

// After a restart at any step the rollout continues from the served set, once the statuses of its
// pods, or a minute without them, show which of them is stuck.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		r, stop := newRig(t, root, 0)
		r.deliver("a1 b1 c1")
		r.report("a1 b1 c1", time.Now())
		r.deliver("a1 b2 c1") // b2 is stuck
		stop()
		for _, step := range []struct {
			desired, ready, unready string
			wait                    time.Duration
			before, want            string
		}{
			{desired: "a3 b3 c3", ready: "a1 c1", before: "a1 b2 c1", want: "a1 b2 c1"}, // b2 is unknown
			{ready: "a1 c1", unready: "b2", before: "a1 b2 c1", want: "a1 b3 c1"},
			{ready: "a1 c1", before: "a1 b3 c1", want: "a1 b3 c1"},
			{ready: "a1 b3 c1", before: "a1 b3 c1", want: "a3 b3 c1"},
			{ready: "a3", wait: 59 * time.Second, before: "a3 b3 c1", want: "a3 b3 c1"},
			{ready: "a3 b3", wait: time.Minute, before: "a3 b3 c1", want: "a3 b3 c3"},
			{desired: "a4 b4", before: "a3 b3 c3", want: "a3 b3"}, // removed pods do not wait
		} {
			r, stop := newRig(t, root, 0)
			r.expect(0, step.before)
			if step.desired != "" {
				r.deliver(step.desired)
			}
			r.report(step.ready, time.Now())
			r.report(step.unready, time.Time{})
			r.expect(step.wait, step.want)
			stop()
		}
	})
}

// A pod that runs once is ready when it has succeeded. The same phase of a pod that always restarts
// is its end.
func TestSucceeded(t *testing.T) {
	for policy, want := range map[v1.RestartPolicy]bool{
		"": false, v1.RestartPolicyAlways: false, v1.RestartPolicyNever: true, v1.RestartPolicyOnFailure: true,
	} {
		_, got := readySince(&v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy}}, &v1.PodStatus{Phase: v1.PodSucceeded})
		require.Equal(t, want, got, policy)
	}
}
