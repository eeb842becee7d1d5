package eventsourcetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podsCase is one rule of the contract.
type podsCase struct {
	name string
	play func(l *loop)
}

// podsCases are all rules for a PodSource, the plainest first.
var podsCases = []podsCase{
	{"an unknown source has no changes", playUnknown},
	{"before the first set there is nothing", playNothing},
	{"an empty first set is told once", playEmpty},
	{"a first set of pods is one ADD", playFirst},
	{"what is the same is not told", playSame},
	{"each kind of difference has its operation", playDifferences},
	{"all differences of a set come in order", playOrder},
	{"what happens between two looks is one difference", playCoalesced},
	{"another UID under a name is another pod", playNewUID},
	{"of several pods of one name the first counts", playDuplicates},
	{"pods belong to whoever handed them in", playOwnPods},
	{"after a restart the difference is told", playRestart},
	{"differences add up", playAddUp},
}

func set(pods ...*v1.Pod) []*v1.Pod { return pods }

func playUnknown(l *loop) {
	l.begin()
	l.sub.Set(set(pod("a", "1", "x")))
	l.settle()
	if changes := l.sub.Pods.Changes("nobody"); len(changes) > 0 {
		l.Errorf("a source that nobody named has changes: %v", trace(changes))
	}
	l.sub.Pods.Handled("nobody")
	l.want("the other source", l.take(), "ADD 1")
	l.end()
}

func playNothing(l *loop) {
	if l.sub.Eager {
		l.Skip("the source has a set by itself")
	}
	l.begin()
	l.settle()
	if changes := l.sub.Pods.Changes(l.sub.Source); len(changes) > 0 {
		l.Errorf("changes before the first set: %v", trace(changes))
	}
	l.sub.Pods.Handled(l.sub.Source)
	if l.sub.Ready != nil && l.sub.Ready() {
		l.Error("the source is ready before it had a set")
	}
	l.sub.Set(set(pod("a", "1", "x")))
	l.want("the first set", l.settled(), "ADD 1")
	l.end()
}

func playEmpty(l *loop) {
	l.begin()
	l.sub.Set(nil)
	l.want("the first set", l.settled(), "ADD")
	l.sub.Set(nil)
	l.want("the same again", l.settled())
	l.sub.Set(set(pod("a", "1", "x")))
	l.want("a pod", l.settled(), "ADD 1")
	l.sub.Set(nil)
	l.want("no pod", l.settled(), "REMOVE 1")
	l.end()
}

func playFirst(l *loop) {
	l.sub.Set(set(pod("a", "1", "x"), pod("b", "2", "x")))
	l.begin()
	l.want("the first set", l.settled(), "ADD 1 2")
	l.end()
}

func playSame(l *loop) {
	l.sub.Set(set(pod("a", "1", "x"), pod("b", "2", "x")))
	l.begin()
	l.settled()
	for range 3 {
		l.sub.Set(set(pod("b", "2", "x"), pod("a", "1", "x")))
		l.want("the same, in another order", l.settled())
	}
	l.end()
}

func playDifferences(l *loop) {
	l.sub.Set(set(pod("stays", "0", "x")))
	l.begin()
	l.want("the first set", l.settled(), "ADD 0")
	step := func(want string, edits ...func(*v1.Pod)) {
		l.Helper()
		l.sub.Set(set(pod("stays", "0", "x"), pod("a", "1", "y", edits...)))
		l.want("one difference", l.settled(), want)
	}
	l.sub.Set(set(pod("stays", "0", "x"), pod("a", "1", "x")))
	l.want("one difference", l.settled(), "ADD 1")
	step("UPDATE 1")
	step("UPDATE 1", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
	step("UPDATE 1", func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} })
	if !l.sub.Manifests {
		step("UPDATE 1")
		step("RECONCILE 1", running)
		step("DELETE 1", running, deleting)
	}
	l.sub.Set(set(pod("stays", "0", "x")))
	l.want("one difference", l.settled(), "REMOVE 1")
	l.end()
}

func playOrder(l *loop) {
	l.sub.Set(set(pod("gone", "1", "x"), pod("new-uid", "2", "x"), pod("update", "3", "x"), pod("same", "4", "x"), pod("delete", "5", "x"), pod("status", "6", "x")))
	l.begin()
	l.want("the first set", l.settled(), "ADD 1 2 3 4 5 6")
	next := set(pod("update", "3", "y"), pod("new", "7", "x"), pod("same", "4", "x"), pod("new-uid", "8", "x"))
	if l.sub.Manifests {
		l.sub.Set(next)
		l.want("all at once", l.settled(), "REMOVE 1 2 5 6", "ADD 7 8", "UPDATE 3")
	} else {
		l.sub.Set(append(next, pod("status", "6", "x", running), pod("delete", "5", "x", deleting)))
		l.want("all at once", l.settled(), "REMOVE 1 2", "ADD 7 8", "UPDATE 3", "DELETE 5", "RECONCILE 6")
	}
	l.end()
}

func playCoalesced(l *loop) {
	l.sub.Set(set(pod("a", "1", "x"), pod("b", "2", "x")))
	l.begin()
	l.want("the first set", l.settled(), "ADD 1 2")
	l.sub.Set(set(pod("a", "1", "y"), pod("brief", "3", "x")))
	l.settle()
	l.sub.Set(set(pod("a", "1", "z"), pod("b", "2", "x"), pod("c", "4", "x")))
	l.want("two sets", l.settled(), "ADD 4", "UPDATE 1")
	if got := l.known["1"].Spec.Containers[0].Image; got != "z" {
		l.Errorf("the update has the image %q of a set before the newest", got)
	}
	l.sub.Set(nil)
	l.settle()
	l.sub.Set(set(pod("a", "1", "z"), pod("b", "2", "x"), pod("c", "4", "x")))
	l.want("there and back", l.settled())
	l.end()
}

func playNewUID(l *loop) {
	l.sub.Set(set(pod("a", "1", "x")))
	l.begin()
	l.want("the first set", l.settled(), "ADD 1")
	l.sub.Set(set(pod("a", "2", "x")))
	l.want("another UID", l.settled(), "REMOVE 1", "ADD 2")
	l.end()
}

func playDuplicates(l *loop) {
	l.sub.Set(set(pod("a", "1", "x"), pod("a", "2", "x"), pod("b", "3", "x"), pod("c", "3", "x")))
	l.begin()
	l.want("two names twice", l.settled(), "ADD 1 3")
	if got := l.known["3"].Name; got[0] != 'b' {
		l.Errorf("of two pods with one UID the second was taken, %s", got)
	}
	l.end()
}

func playOwnPods(l *loop) {
	mine := set(pod("a", "1", "x"), pod("b", "2", "x"))
	l.sub.Set(mine)
	l.begin()
	l.want("the first set", l.settled(), "ADD 1 2")
	for _, p := range mine {
		p.Spec.Containers[0].Image, p.Labels, p.Name = "spoiled", map[string]string{"a": "b"}, "spoiled"
	}
	want := []string{"1 x", "2 x"}
	if got := l.images(); !slices.Equal(got, want) {
		l.Errorf("changing pods that were handed in changed those that were handed out: %q", got)
	}
	l.sub.Set(set(pod("a", "1", "x"), pod("b", "2", "x")))
	l.want("the same again", l.settled())
	l.end()
}

func playRestart(l *loop) {
	l.sub.Set(set(pod("a", "1", "x")))
	l.begin()
	l.want("the first set", l.settled(), "ADD 1")
	l.sub.Set(set(pod("b", "2", "x")))
	l.settle()
	l.mu.Lock()
	l.dirty = false // what was said is lost with whoever heard it
	l.mu.Unlock()
	l.end()
	l.begin()
	l.want("what was not asked for before the restart", l.settled(), "REMOVE 1", "ADD 2")
	l.end()
	l.sub.Set(set(pod("c", "3", "x")))
	l.begin()
	l.want("what changed meanwhile", l.settled(), "REMOVE 2", "ADD 3")
	l.end()
}

// playAddUp plays random sets, and looks at random moments: whatever was told
// adds up to the newest set.
func playAddUp(l *loop) {
	rng := rand.New(rand.NewPCG(1, 2))
	rounds := 60
	if l.cfg.RealTime {
		rounds = 3
	}
	l.begin()
	for range rounds {
		var newest []*v1.Pod
		for range 1 + rng.IntN(5) {
			newest = nil
			for i := range 6 {
				if rng.IntN(2) == 0 {
					newest = append(newest, pod(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i)), fmt.Sprint("i", rng.IntN(2))))
				}
			}
			l.sub.Set(newest)
			time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
			if rng.IntN(2) == 0 {
				l.take()
			}
		}
		l.settled()
		want := map[types.UID]*v1.Pod{}
		for _, p := range newest {
			want[p.UID] = p
		}
		if got := l.images(); !slices.Equal(got, images(want)) {
			l.Fatalf("the changes add up to %q, the newest set is %q", got, images(want))
		}
	}
	l.end()
}
