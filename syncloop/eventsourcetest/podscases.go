package eventsourcetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podwright/podwright/syncloop"
)

// podsCases are the rules for a PodSource, simple ones first. Each case also checks readiness and
// that pods do not change after they were read.
var podsCases = []struct {
	name string
	play func(r *reader)
}{
	{"Pods returns false before the first set", playBeforeFirstSet},
	{"Pods returns the newest complete set", playNewest},
	{"each newer set emits PodsChanged", playEmits},
	{"the source is ready after the first handled set", playReady},
	{"a pod that is missing in the newest set is removed", playRemoved},
	{"an invalid pod affects no other pod", playInvalid},
	{"an equal set changes no pod", playEqual},
	{"returned pods never change", playImmutable},
	{"Pods has no side effect", playNoSideEffect},
	{"the first of several pods with one name or UID is taken", playDuplicates},
	{"the caller may change pods after it passed them on", playOwnPods},
	{"Pods returns the newest set after a restart", playRestart},
}

// reader reads a source of pods as a syncloop.Loop does and checks the results.
type reader struct {
	*fixture
	sub PodsSubject
	run *sourceRun

	processed int // number of events of the run that were processed
	pods      []*v1.Pod
	delivered bool
	// copies are deep copies of the pods at the time of reading.
	copies map[*v1.Pod]*v1.Pod
}

func newReader(t testing.TB, sub PodsSubject) *reader {
	s := newFixture(t, Config{New: sub.source})
	return &reader{fixture: s, sub: sub, copies: map[*v1.Pod]*v1.Pod{}}
}

// play runs a case with the source running.
func (r *reader) play(scenario func(r *reader)) {
	r.Helper()
	r.begin()
	scenario(r)
	r.end()
}

func (r *reader) begin() { r.run, r.processed = r.start(), 0 }

// end stops the source and checks that the returned pods have not changed.
func (r *reader) end() {
	r.Helper()
	r.run.stop()
	for given, then := range r.copies {
		if !equality.Semantic.DeepEqual(given, then) {
			r.Errorf("pod %s changed after Pods had returned it", then.Name)
		}
	}
}

// read reads the newest set if the source has emitted PodsChanged.
func (r *reader) read() {
	r.Helper()
	news := r.run.since(r.processed)
	r.processed += len(news)
	if !slices.Contains(news, syncloop.Event{Kind: syncloop.PodsChanged, Source: r.sub.Source}) {
		return
	}
	if !r.delivered && r.ready() {
		r.Error("the source is ready before its first set was handled")
	}
	if r.pods, r.delivered = r.sub.Pods.Pods(r.sub.Source); r.delivered {
		r.sub.Pods.Handled(r.sub.Source)
	}
	if r.delivered && r.sub.Ready != nil && !r.ready() {
		r.Error("the source is not ready although its first set was handled")
	}
	for _, p := range r.pods {
		if p == nil || p.Name == "" || p.UID == "" {
			r.Fatal("Pods returned a pod without name or UID")
		}
		if r.copies[p] == nil {
			r.copies[p] = p.DeepCopy()
		}
	}
}

func (r *reader) ready() bool { return r.sub.Ready != nil && r.sub.Ready() }

// want sets the pods and fails the case unless they are read.
func (r *reader) want(why string, set ...*v1.Pod) {
	r.Helper()
	r.set(set...)
	r.wantOf(why, set...)
}

func (r *reader) set(pods ...*v1.Pod) {
	r.Helper()
	r.call("Set", func() { r.sub.Set(pods) })
}

func (r *reader) wantOf(why string, set ...*v1.Pod) {
	r.Helper()
	time.Sleep(r.settle)
	r.read()
	if got, want := images(r.pods), images(set); !r.delivered || !slices.Equal(got, want) {
		r.Fatalf("%s: got %q (delivered: %t), want %q", why, got, r.delivered, want)
	}
}

func images(pods []*v1.Pod) []string {
	var all []string
	for _, p := range pods {
		all = append(all, fmt.Sprint(p.UID, " ", p.Spec.Containers[0].Image))
	}
	slices.Sort(all)
	return all
}

func playBeforeFirstSet(r *reader) {
	none := func(source string) {
		time.Sleep(r.settle)
		if pods, delivered := r.sub.Pods.Pods(source); delivered || len(pods) > 0 {
			r.Errorf("source %s without a set has pods: %q (delivered: %t)", source, images(pods), delivered)
		}
		if r.sub.Pods.Handled(source); r.ready() {
			r.Error("the source is ready before its first set")
		}
	}
	if !r.sub.Eager {
		none(r.sub.Source)
	}
	none("unregistered")
	r.want("the first set", pod("a", "1", "x"))
}

func playNewest(r *reader) {
	r.want("an empty first set")
	r.want("two pods", pod("a", "1", "x"), pod("b", "2", "x"))
	r.want("another image", pod("a", "1", "y"), pod("b", "2", "x"))
	r.want("another UID", pod("a", "3", "y"), pod("b", "2", "x"))
	r.set(pod("a", "3", "z"), pod("brief", "4", "x"))
	time.Sleep(r.settle)
	r.want("two sets between two reads", pod("a", "3", "x"), pod("c", "5", "x"))
	r.want("no pod")
}

func playEmits(r *reader) {
	for _, image := range []string{"x", "y", "z"} {
		n := len(r.run.since(0))
		r.set(pod("a", "1", image))
		r.run.expect(syncloop.Event{Kind: syncloop.PodsChanged, Source: r.sub.Source}, n)
	}
}

// playReady sets an empty set, because a source without pods becomes ready, too. The reader checks the
// rest.
func playReady(r *reader) {
	if r.sub.Ready == nil {
		r.Skip("PodsSubject.Ready is not set")
	}
	r.want("an empty first set")
	if r.want("a second set", pod("a", "1", "x")); !r.ready() {
		r.Error("the source is no longer ready after its second set")
	}
}

func playRemoved(r *reader) {
	r.want("three pods", pod("a", "1", "x"), pod("b", "2", "x"), pod("c", "3", "x"))
	r.want("two of them", pod("a", "1", "x"), pod("c", "3", "x"))
	r.want("no pod")
	r.want("a removed pod again", pod("b", "2", "x"))
}

// playInvalid adds a pod without a name. The source ignores that pod or the whole set.
func playInvalid(r *reader) {
	r.want("the first set", pod("a", "1", "x"))
	r.set(pod("a", "1", "x"), pod("", "2", "x"), pod("b", "3", "x"))
	time.Sleep(r.settle)
	r.read()
	if got := images(r.pods); !slices.Equal(got, []string{"1 x", "3 x"}) && !slices.Equal(got, []string{"1 x"}) {
		r.Fatalf("a set with a pod without a name: got %q, want its valid pods or the previous set", got)
	}
	r.want("the next valid set", pod("b", "3", "x"))
}

func playEqual(r *reader) {
	set := func() []*v1.Pod { return []*v1.Pod{pod("a", "1", "x"), pod("b", "2", "x")} }
	r.want("the first set", set()...)
	before := slices.Clone(r.pods)
	r.want("an equal set", set()...)
	for _, p := range before {
		if !slices.ContainsFunc(r.pods, func(q *v1.Pod) bool { return equality.Semantic.DeepEqual(p, q) }) {
			r.Errorf("pod %s differs after an equal set", p.Name)
		}
	}
}

// playImmutable makes newer versions of a returned pod; end compares the returned ones.
func playImmutable(r *reader) {
	for _, image := range []string{"x", "y", "z"} {
		r.want("another image", pod("a", "1", image))
	}
	r.want("no pod")
}

func playNoSideEffect(r *reader) {
	r.want("the first set", pod("a", "1", "x"), pod("b", "2", "x"))
	first := slices.Clone(r.pods)
	clear(r.pods) // the reader owns the slice
	if again, delivered := r.sub.Pods.Pods(r.sub.Source); !delivered || !slices.Equal(again, first) {
		r.Errorf("the second read returned another set: %d pods (delivered: %t)", len(again), delivered)
	}
}

func playDuplicates(r *reader) {
	r.set(pod("a", "1", "x"), pod("a", "2", "x"), pod("b", "3", "y"), pod("c", "3", "z"))
	r.wantOf("two names twice", pod("a", "1", "x"), pod("b", "3", "y"))
}

func playOwnPods(r *reader) {
	mine := []*v1.Pod{pod("a", "1", "x"), pod("b", "2", "x")}
	r.want("the first set", mine...)
	for _, p := range mine {
		p.Spec.Containers[0].Image, p.Labels, p.Name = "spoiled", map[string]string{"a": "b"}, "spoiled"
	}
	if got, want := images(r.pods), []string{"1 x", "2 x"}; !slices.Equal(got, want) {
		r.Errorf("changes of the pods passed to Set changed the returned pods: %q", got)
	}
}

func playRestart(r *reader) {
	r.want("the first set", pod("a", "1", "x"))
	r.set(pod("b", "2", "x"))
	time.Sleep(r.settle)
	r.end() // events are lost with the run that received them
	r.begin()
	r.wantOf("a set from before the restart", pod("b", "2", "x"))
	r.end()
	r.set(pod("c", "3", "x"))
	r.begin()
	r.wantOf("a set from between two runs", pod("c", "3", "x"))
}
