package eventsourcetest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// defectiveSource is a Merger with one defect.
type defectiveSource struct {
	*podsource.Merger
	feed   syncloop.EventSource
	defect podsDefect
	runs   int
	reads  int
	events int
	given  []*v1.Pod // the newest set as passed to Set
	before []*v1.Pod // the last result of Pods
}

// podsDefect is a defect of a source of pods, with the case that finds it.
type podsDefect struct {
	name, rule string
	// pods changes the result of Pods.
	pods func(s *defectiveSource, source string, pods []*v1.Pod, delivered bool) ([]*v1.Pod, bool)
	// set changes a set before it is passed on.
	set func(s *defectiveSource, pods []*v1.Pod) []*v1.Pod
	// emit reports whether an event is passed on.
	emit func(s *defectiveSource) bool
	// ready changes the result of Ready.
	ready func(ready bool) bool
}

func (s *defectiveSource) Pods(source string) ([]*v1.Pod, bool) {
	s.reads++
	pods, delivered := s.Merger.Pods(source)
	if s.defect.pods != nil {
		pods, delivered = s.defect.pods(s, source, pods, delivered)
	}
	s.before = slices.Clone(pods)
	return pods, delivered
}

func (s *defectiveSource) Run(ctx context.Context, emit func(syncloop.Event)) error {
	s.runs++
	return s.feed.Run(ctx, func(e syncloop.Event) {
		if s.defect.emit == nil || s.defect.emit(s) {
			emit(e)
		}
	})
}

var podsDefects = []podsDefect{
	{name: "unknown sources have a set", rule: "Pods returns false before the first set",
		pods: func(_ *defectiveSource, _ string, pods []*v1.Pod, _ bool) ([]*v1.Pod, bool) { return pods, true }},
	{name: "ready before it was handled", rule: "the source is ready after the first handled set",
		ready: func(bool) bool { return true }},
	{name: "never ready", rule: "the source is ready after the first handled set",
		ready: func(bool) bool { return false }},
	{name: "an empty set counts as no set", rule: "Pods returns the newest complete set",
		pods: func(_ *defectiveSource, _ string, pods []*v1.Pod, _ bool) ([]*v1.Pod, bool) {
			return pods, len(pods) > 0
		}},
	{name: "only new pods are returned", rule: "Pods returns the newest complete set",
		pods: func(s *defectiveSource, _ string, pods []*v1.Pod, delivered bool) ([]*v1.Pod, bool) {
			return slices.DeleteFunc(pods, func(p *v1.Pod) bool { return slices.Contains(images(s.before), images([]*v1.Pod{p})[0]) }), delivered
		}},
	{name: "a second set before a read is dropped", rule: "Pods returns the newest complete set",
		set: func(s *defectiveSource, pods []*v1.Pod) []*v1.Pod {
			// The second set since the last read is dropped.
			if s.given != nil && s.reads == 0 {
				return s.given
			}
			s.reads = 0
			return pods
		}},
	{name: "a set can be read once", rule: "Pods has no side effect",
		pods: func(s *defectiveSource, _ string, pods []*v1.Pod, delivered bool) ([]*v1.Pod, bool) {
			return pods, delivered && s.reads == 1
		}},
	{name: "each reader has copies", rule: "Pods has no side effect",
		pods: func(_ *defectiveSource, _ string, pods []*v1.Pod, delivered bool) ([]*v1.Pod, bool) {
			for i := range pods {
				pods[i] = pods[i].DeepCopy()
			}
			return pods, delivered
		}},
	{name: "the last pod of a name is taken", rule: "the first of several pods with one name or UID is taken",
		set: func(_ *defectiveSource, pods []*v1.Pod) []*v1.Pod {
			pods = slices.Clone(pods)
			slices.Reverse(pods)
			return pods
		}},
	{name: "pods are not copied", rule: "the caller may change pods after it passed them on",
		pods: func(s *defectiveSource, _ string, _ []*v1.Pod, delivered bool) ([]*v1.Pod, bool) {
			return slices.Clone(s.given), delivered
		}},
	{name: "removed pods stay", rule: "a pod that is missing in the newest set is removed",
		pods: func(s *defectiveSource, _ string, pods []*v1.Pod, delivered bool) ([]*v1.Pod, bool) {
			for _, p := range s.before {
				if !slices.ContainsFunc(pods, func(q *v1.Pod) bool { return q.UID == p.UID }) {
					pods = append(pods, p)
				}
			}
			return pods, delivered
		}},
	{name: "an invalid pod empties the set", rule: "an invalid pod affects no other pod",
		set: func(_ *defectiveSource, pods []*v1.Pod) []*v1.Pod {
			if slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.Name == "" }) {
				return nil
			}
			return pods
		}},
	{name: "pods after an invalid one are lost", rule: "an invalid pod affects no other pod",
		set: func(s *defectiveSource, pods []*v1.Pod) []*v1.Pod {
			if i := slices.IndexFunc(pods, func(p *v1.Pod) bool { return p.Name == "" }); i >= 0 {
				return pods[i:]
			}
			return pods
		}},
	{name: "each set has its time", rule: "an equal set changes no pod",
		set: func(_ *defectiveSource, pods []*v1.Pod) (stamped []*v1.Pod) {
			for _, p := range pods {
				p = p.DeepCopy()
				p.Annotations = map[string]string{"read": time.Now().String()}
				stamped = append(stamped, p)
			}
			return stamped
		}},
	{name: "no event after the first set", rule: "each newer set emits PodsChanged",
		emit: func(s *defectiveSource) bool { s.events++; return s.events <= 2 }},
	{name: "returned pods are changed later", rule: "returned pods never change",
		pods: func(s *defectiveSource, _ string, pods []*v1.Pod, delivered bool) ([]*v1.Pod, bool) {
			for _, p := range s.before {
				p.Labels = map[string]string{"changed": "since"}
			}
			return pods, delivered
		}},
	{name: "no event after a restart", rule: "Pods returns the newest set after a restart",
		emit: func(s *defectiveSource) bool { return s.runs < 2 }},
}

// failingPods returns the cases that fail for a source of pods.
func failingPods(t *testing.T, d podsDefect) []string {
	var names []string
	for _, c := range podsCases {
		synctest.Test(t, func(t *testing.T) {
			failures := record(t, func(t testing.TB) { newReader(t, defectiveSubject(t, d)).play(c.play) })
			if len(failures) > 0 {
				names = append(names, c.name)
				t.Logf("%s: %s: %.300s", d.name, c.name, failures[0])
			}
			time.Sleep(2 * time.Hour)
		})
	}
	return names
}

func defectiveSubject(t testing.TB, d podsDefect) PodsSubject {
	m, err := podsource.NewMerger(podsource.MergerConfig{Sources: []string{"mine"}})
	require.NoError(t, err)
	sets := make(chan []*v1.Pod, 10)
	feed, err := podsource.FromChannel(m, "mine", sets)
	require.NoError(t, err)
	s := &defectiveSource{Merger: m, feed: feed, defect: d}
	return PodsSubject{
		Pods: s, Feed: s, Source: "mine",
		Set: func(pods []*v1.Pod) {
			if d.set != nil {
				pods = d.set(s, pods)
			}
			s.given = pods
			sets <- pods
		},
		Ready: func() bool {
			if d.ready != nil {
				return d.ready(m.SourceReady("mine"))
			}
			return m.SourceReady("mine")
		},
	}
}

// The case for a rule finds each source of pods that breaks the rule.
func TestPodsDefectsAreFound(t *testing.T) {
	require.Empty(t, failingPods(t, podsDefect{}), "a source without defects")
	for _, d := range podsDefects {
		t.Run(d.name, func(t *testing.T) { require.Contains(t, failingPods(t, d), d.rule) })
	}
}
