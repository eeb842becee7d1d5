package eventsourcetest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// spoiled is a Merger, spoiled by one defect.
type spoiled struct {
	*podsource.Merger
	defect  podsDefect
	runs    int
	handed  []*v1.Pod
	before  []syncloop.Change
	given   []*v1.Pod
	handled bool
}

// podsDefect is a way to break a source of pods, and the case that finds it.
type podsDefect struct {
	name, found string
	// changes spoils what Changes returns.
	changes func(s *spoiled, source string, c []syncloop.Change) []syncloop.Change
	// set spoils what is handed in.
	set func(s *spoiled, pods []*v1.Pod) []*v1.Pod
	// emit tells whether an event gets through.
	emit func(s *spoiled) bool
	// ready spoils the answer of Ready.
	ready func(s *spoiled, ready bool) bool
}

func (s *spoiled) Changes(source string) []syncloop.Change {
	changes := s.Merger.Changes(source)
	if s.defect.changes != nil {
		changes = s.defect.changes(s, source, changes)
	}
	for _, c := range changes {
		s.handed = append(s.handed, c.Pods...)
	}
	return changes
}

func (s *spoiled) Handled(source string) {
	s.handled = true
	s.Merger.Handled(source)
}

func (s *spoiled) Run(ctx context.Context, emit func(syncloop.Event)) error {
	s.runs++
	return s.Merger.Run(ctx, func(e syncloop.Event) {
		if s.defect.emit == nil || s.defect.emit(s) {
			emit(e)
		}
	})
}

// without drops the changes of one operation.
func without(changes []syncloop.Change, op syncloop.Op) []syncloop.Change {
	return slices.DeleteFunc(changes, func(c syncloop.Change) bool { return c.Op == op })
}

// renamed gives the changes of one operation another one.
func renamed(changes []syncloop.Change, from, to syncloop.Op) []syncloop.Change {
	for i := range changes {
		if changes[i].Op == from {
			changes[i].Op = to
		}
	}
	return changes
}

var podsDefects = []podsDefect{
	{name: "everybody has changes", found: "an unknown source has no changes",
		changes: func(_ *spoiled, source string, c []syncloop.Change) []syncloop.Change {
			if source == "nobody" {
				return []syncloop.Change{{Op: syncloop.OpAdd, Source: source}}
			}
			return c
		}},
	{name: "changes before the first set", found: "before the first set there is nothing",
		changes: func(s *spoiled, source string, c []syncloop.Change) []syncloop.Change {
			if c == nil && !s.handled {
				return []syncloop.Change{{Op: syncloop.OpAdd, Source: source}}
			}
			return c
		}},
	{name: "ready before it was handled", found: "an empty first set is told once",
		ready: func(*spoiled, bool) bool { return true }},
	{name: "never ready", found: "an empty first set is told once",
		ready: func(*spoiled, bool) bool { return false }},
	{name: "an empty first set is not told", found: "an empty first set is told once",
		changes: func(_ *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			return slices.DeleteFunc(c, func(c syncloop.Change) bool { return len(c.Pods) == 0 })
		}},
	{name: "each empty set is told", found: "an empty first set is told once",
		changes: func(s *spoiled, source string, c []syncloop.Change) []syncloop.Change {
			if len(c) == 0 {
				return []syncloop.Change{{Op: syncloop.OpAdd, Source: source}}
			}
			return c
		}},
	{name: "the first set comes pod by pod", found: "a first set of pods is one ADD",
		changes: func(_ *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			var all []syncloop.Change
			for _, change := range c {
				for _, p := range change.Pods {
					all = append(all, syncloop.Change{Op: change.Op, Source: change.Source, Pods: []*v1.Pod{p}})
				}
			}
			return all
		}},
	{name: "the source has no name", found: "a first set of pods is one ADD",
		changes: func(_ *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			for i := range c {
				c[i].Source = ""
			}
			return c
		}},
	{name: "what was told is told again", found: "what is the same is not told",
		changes: func(s *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			if len(c) == 0 {
				return s.before
			}
			s.before = c
			return c
		}},
	{name: "an update is a new pod", found: "each kind of difference has its operation",
		changes: func(_ *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			return renamed(c, syncloop.OpUpdate, syncloop.OpAdd)
		}},
	{name: "a status is an update", found: "each kind of difference has its operation",
		changes: func(_ *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			return renamed(c, syncloop.OpReconcile, syncloop.OpUpdate)
		}},
	{name: "a status is lost", found: "each kind of difference has its operation",
		changes: func(_ *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			return without(c, syncloop.OpReconcile)
		}},
	{name: "a deletion is an update", found: "each kind of difference has its operation",
		changes: func(_ *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			return renamed(c, syncloop.OpDelete, syncloop.OpUpdate)
		}},
	{name: "a removal is lost", found: "each kind of difference has its operation",
		changes: func(_ *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			return without(c, syncloop.OpRemove)
		}},
	{name: "ADD comes before REMOVE", found: "all differences of a set come in order",
		changes: func(_ *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			if len(c) > 1 {
				c[0], c[1] = c[1], c[0]
			}
			return c
		}},
	{name: "a set is forgotten while another comes", found: "what happens between two looks is one difference",
		set: func(s *spoiled, pods []*v1.Pod) []*v1.Pod {
			// The second set since the last look is dropped.
			if s.given != nil {
				return s.given
			}
			s.given = pods
			return pods
		},
		changes: func(s *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			s.given = nil
			return c
		}},
	{name: "the last of a name counts", found: "of several pods of one name the first counts",
		set: func(_ *spoiled, pods []*v1.Pod) []*v1.Pod {
			pods = slices.Clone(pods)
			slices.Reverse(pods)
			return pods
		}},
	{name: "a new UID is an update", found: "another UID under a name is another pod",
		set: func(_ *spoiled, pods []*v1.Pod) []*v1.Pod {
			var same []*v1.Pod
			for _, p := range pods {
				p = p.DeepCopy()
				p.UID = types.UID("uid-of-" + p.Name)
				same = append(same, p)
			}
			return same
		}},
	{name: "pods are not copied", found: "pods belong to whoever handed them in",
		set: func(s *spoiled, pods []*v1.Pod) []*v1.Pod {
			s.given = pods
			return pods
		},
		changes: func(s *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			for _, change := range c {
				for i, p := range change.Pods {
					for _, mine := range s.given {
						if mine.UID == p.UID {
							change.Pods[i] = mine
						}
					}
				}
			}
			return c
		}},
	{name: "what was handed out is changed", found: "differences add up",
		changes: func(s *spoiled, _ string, c []syncloop.Change) []syncloop.Change {
			for _, p := range s.handed {
				p.Labels = map[string]string{"changed": "since"}
			}
			return c
		}},
	{name: "after a restart nothing is said", found: "after a restart the difference is told",
		emit: func(s *spoiled) bool { return s.runs < 2 }},
}

// failingPods returns the cases that fail for a source of pods.
func failingPods(t *testing.T, d podsDefect) []string {
	cfg, err := Config{New: func(testing.TB) Subject { return Subject{} }}.withDefaults()
	require.NoError(t, err)
	var names []string
	for _, c := range podsCases {
		synctest.Test(t, func(t *testing.T) {
			failures := record(t, func(t testing.TB) { c.play(newLoop(t, cfg, spoiledSubject(t, d))) })
			if len(failures) > 0 {
				names = append(names, c.name)
				t.Logf("%s: %s: %.300s", d.name, c.name, failures[0])
			}
			time.Sleep(2 * time.Hour)
		})
	}
	return names
}

func spoiledSubject(t testing.TB, d podsDefect) PodsSubject {
	m, err := podsource.NewMerger(podsource.MergerConfig{Sources: []string{"mine"}})
	require.NoError(t, err)
	s := &spoiled{Merger: m, defect: d}
	return PodsSubject{
		Pods: s, Source: "mine",
		Set: func(pods []*v1.Pod) {
			if d.set != nil {
				pods = d.set(s, pods)
			}
			_ = m.Set("mine", pods)
		},
		Ready: func() bool {
			if d.ready != nil {
				return d.ready(s, m.SourceReady("mine"))
			}
			return m.SourceReady("mine")
		},
	}
}

// Each defect of a source of pods is found by the case whose rule it breaks.
func TestPodsDefectsAreFound(t *testing.T) {
	require.Empty(t, failingPods(t, podsDefect{}), "a source without defects")
	for _, d := range podsDefects {
		t.Run(d.name, func(t *testing.T) { require.Contains(t, failingPods(t, d), d.found) })
	}
}
