package podsource

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPod(name string, uid types.UID, edits ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// follower reads sets of a Merger as a Loop does.
type follower struct {
	*Merger
	read map[string]map[types.UID]*v1.Pod
}

func newMerger(tb testing.TB, cfg MergerConfig) *follower {
	tb.Helper()
	m, err := NewMerger(cfg)
	require.NoError(tb, err)
	return &follower{m, map[string]map[types.UID]*v1.Pod{}}
}

// Set replaces the pods of a source without an event.
func (f *follower) Set(source string, pods []*v1.Pod) error { return f.Merger.Set(source, pods, nil) }

// Changes returns the differences between the newest set of a source and the previous one.
func (f *follower) Changes(source string) []syncloop.Change {
	pods, delivered := f.Pods(source)
	if !delivered {
		return nil
	}
	before := f.read[source]
	f.read[source] = byUID(pods)
	if before == nil && len(pods) == 0 {
		return []syncloop.Change{{Op: syncloop.OpAdd}}
	}
	return syncloop.Diff(before, pods)
}

// ignoreEvent is an emit that discards events.
func ignoreEvent(syncloop.Event) {}

// trace formats changes as "OP name,name".
func trace(changes []syncloop.Change) []string {
	var lines []string
	for _, c := range changes {
		line := c.Op.String()
		for _, pod := range c.Pods {
			line += " " + pod.Name + "/" + string(pod.UID)
		}
		lines = append(lines, line)
	}
	return lines
}

func deleting(pod *v1.Pod) {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	pod.DeletionTimestamp = &at
}

func image(image string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Containers = []v1.Container{{Name: "c", Image: image}} }
}

// L3: one handled set, empty or not, makes a source ready, and an empty first set is a change.
func TestMergerReady(t *testing.T) {
	m := newMerger(t, MergerConfig{Sources: []string{"api"}})
	require.NoError(t, m.Register("file"))
	require.Equal(t, []string{"api", "file"}, m.Waiting())

	require.Empty(t, m.Changes("file"))
	m.Handled("file")
	require.False(t, m.SourceReady("file"), "not ready before the first set")

	require.NoError(t, m.Set("file", nil))
	require.False(t, m.SourceReady("file"), "delivered, not read")
	require.Equal(t, []string{"ADD"}, trace(m.Changes("file")))
	require.False(t, m.SourceReady("file"), "read, not handled")
	m.Handled("file")
	require.True(t, m.SourceReady("file"))
	require.False(t, m.Ready())
	require.NoError(t, m.Set("file", nil))
	require.Empty(t, m.Changes("file"), "an unchanged set causes no change")

	require.NoError(t, m.Set("api", []*v1.Pod{newPod("a", "1")}))
	require.Equal(t, []string{"ADD a/1"}, trace(m.Changes("api")))
	m.Handled("api")
	require.True(t, m.Ready())

	require.NoError(t, m.Register("late"))
	require.False(t, m.Ready(), "not ready until a later registered source is handled")
	require.False(t, m.SourceReady("unregistered"))
	require.True(t, newMerger(t, MergerConfig{}).Ready(), "ready without sources")
	_, err := NewMerger(MergerConfig{Sources: []string{""}})
	require.ErrorIs(t, err, ErrNoSource)
	require.ErrorIs(t, m.Set("", nil), ErrNoSource)
	require.ErrorIs(t, m.Register(""), ErrNoSource)
}

// Pods without identity are ignored, each named with its field. The remaining pods of the set are
// taken, also from a channel and an iterator.
func TestMergerRefusesPodsWithoutIdentity(t *testing.T) {
	m := newMerger(t, MergerConfig{})
	set := []*v1.Pod{
		newPod("no-uid", ""), newPod("good", "1"), nil, newPod("", "2"), newPod("no-ns", "3", func(pod *v1.Pod) { pod.Namespace = "" }),
	}
	err := m.Set("s", set)
	require.ErrorIs(t, err, ErrNoIdentity)
	for _, want := range []string{`name "no-uid", UID "": metadata.uid`, "pods[2] is nil", `UID "2": metadata.name`, `name "no-ns", UID "3": metadata.namespace`} {
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, []string{"ADD good/1"}, trace(m.Changes("s")))

	sets := make(chan []*v1.Pod, 1)
	sets <- set
	close(sets)
	var log strings.Builder
	m = newMerger(t, MergerConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	channel, err := FromChannel(m.Merger, "channel", sets)
	require.NoError(t, err)
	require.NoError(t, channel.Run(t.Context(), ignoreEvent))
	require.Equal(t, []string{"ADD good/1"}, trace(m.Changes("channel")))
	require.Equal(t, 4, strings.Count(log.String(), "pod ignored"))
	require.Contains(t, log.String(), `source=channel reason="pods[2] is nil"`)
	m = newMerger(t, MergerConfig{})
	seq, err := FromSeq(m.Merger, "seq", func(context.Context) iter.Seq2[[]*v1.Pod, error] {
		return func(yield func([]*v1.Pod, error) bool) { yield(set, nil) }
	})
	require.NoError(t, err)
	require.NoError(t, seq.Run(t.Context(), ignoreEvent))
	require.Equal(t, []string{"ADD good/1"}, trace(m.Changes("seq")))
}

// S3: of two pods with one full name, or one UID, in a set the first is taken. The other causes
// one warning event for all repetitions of the set. Another source may have the name.
func TestMergerIgnoresDuplicates(t *testing.T) {
	var events []string
	m := newMerger(t, MergerConfig{Event: func(ref v1.ObjectReference, eventtype, reason, message string) {
		events = append(events, strings.Join([]string{eventtype, reason, ref.Name, message}, " "))
	}})
	set := []*v1.Pod{newPod("a", "1"), newPod("a", "2"), newPod("b", "1"), newPod("d", "3")}
	for range 2 {
		require.NoError(t, m.Set("api", set))
	}
	require.Equal(t, []string{"ADD a/1 d/3"}, trace(m.Changes("api")))
	require.Equal(t, []string{
		"Warning FailedValidation a pod from api ignored: metadata.name: pod ns/a is already defined by another pod of the set",
		"Warning FailedValidation b pod from api ignored: metadata.uid: 1 is already the UID of pod ns/a, defined by another pod of the set",
	}, events)
	require.NoError(t, m.Set("other", set[1:2]))
	require.Equal(t, []string{"ADD a/2"}, trace(m.Changes("other")))
	require.NoError(t, m.Set("api", set[:1]))
	require.NoError(t, m.Set("api", set[:2]))
	require.Len(t, events, 3, "the pod was missing from a set")
}

// A later pod with the UID of a handled one does not replace it, in any order of the set.
func TestMergerKeepsTheEarlierOwnerOfAUID(t *testing.T) {
	var events []string
	m := newMerger(t, MergerConfig{Event: func(ref v1.ObjectReference, _, _, message string) {
		events = append(events, ref.Name+" "+message)
	}})
	a, other := newPod("a", "1"), newPod("other", "1")
	require.NoError(t, m.Set("api", []*v1.Pod{a}))
	require.Equal(t, []string{"ADD a/1"}, trace(m.Changes("api")))
	m.Handled("api")
	for range 2 {
		require.NoError(t, m.Set("api", []*v1.Pod{other, a}))
		require.Empty(t, m.Changes("api"))
	}
	require.Equal(t, []string{"other pod from api ignored: metadata.uid: 1 is already the UID of pod ns/a, defined by another pod of the set"}, events)
	require.NoError(t, m.Set("api", []*v1.Pod{other}))
	require.NotEmpty(t, m.Changes("api"), "the owner was removed")
}

// Names that cannot be parts of paths are refused from every source, and affect no other pod.
func TestMergerRefusesUnsafeNames(t *testing.T) {
	var events []string
	m := newMerger(t, MergerConfig{Event: func(ref v1.ObjectReference, _, reason, message string) {
		events = append(events, reason+" "+message)
	}})
	require.NoError(t, m.Set("api", []*v1.Pod{
		newPod("a", "../../etc"), newPod("good", "1"), newPod("../b", "2"), newPod("c", "3", func(pod *v1.Pod) { pod.Namespace = "a/b" }),
		newPod("d", "4", func(pod *v1.Pod) { pod.Spec.Containers = []v1.Container{{Name: ".."}} }),
	}))
	require.Equal(t, []string{"ADD good/1"}, trace(m.Changes("api")))
	require.Equal(t, []string{
		`FailedValidation pod from api ignored: metadata.uid: Invalid value: "../../etc": is not usable as a folder name`,
		`FailedValidation pod from api ignored: metadata.name: Invalid value: "../b": is not a DNS-1123 subdomain`,
		`FailedValidation pod from api ignored: metadata.namespace: Invalid value: "a/b": is not a DNS-1123 label`,
		`FailedValidation pod from api ignored: name of a container: Invalid value: "..": is not a DNS-1123 label`,
	}, events)
}

// A UID belongs to the first source that has it, until a set of that source without it was handled.
// The pod of the other source is then added.
func TestMergerUIDBelongsToOneSource(t *testing.T) {
	var events, emitted []string
	m := newMerger(t, MergerConfig{Event: func(ref v1.ObjectReference, _, reason, message string) {
		events = append(events, ref.Name+" "+reason+" "+message)
	}})
	emit := func(e syncloop.Event) { emitted = append(emitted, e.Source) }
	api := []*v1.Pod{newPod("b", "1"), newPod("c", "2")}
	require.NoError(t, m.Set("file", []*v1.Pod{newPod("a", "1")}))
	require.Equal(t, []string{"ADD a/1"}, trace(m.Changes("file")))
	for range 2 {
		require.NoError(t, m.Merger.SetConstant("api", api, emit))
	}
	require.Equal(t, []string{"ADD c/2"}, trace(m.Changes("api")))
	require.Equal(t, []string{"b FailedValidation pod from api ignored: metadata.uid: 1 is already the UID of a pod of source file"}, events)
	m.Handled("api")
	m.Handled("file")
	require.Empty(t, m.Changes("api"))

	emitted = nil
	require.NoError(t, m.Set("file", nil))
	m.Handled("file") // of the set before
	require.Empty(t, m.Changes("api"), "the removal was not read")
	require.Equal(t, []string{"REMOVE a/1"}, trace(m.Changes("file")))
	require.Empty(t, m.Changes("api"), "the removal was not handled")
	require.Empty(t, emitted)
	m.Handled("file")
	require.Equal(t, []string{"api"}, emitted)
	require.Equal(t, []string{"ADD b/1"}, trace(m.Changes("api")))

	require.NoError(t, m.Set("file", []*v1.Pod{newPod("a", "1")}))
	require.Empty(t, m.Changes("file"), "the UID belongs to the other source now")
}

// A set that an iterator yields with an error, or after the stop, is ignored. Each Run creates a
// new iterator.
func TestFromSeq(t *testing.T) {
	m := newMerger(t, MergerConfig{})
	runs := 0
	ctx, stop := context.WithCancel(t.Context())
	src, err := FromSeq(m.Merger, "mine", func(context.Context) iter.Seq2[[]*v1.Pod, error] {
		runs++
		return func(yield func([]*v1.Pod, error) bool) {
			_ = yield([]*v1.Pod{newPod("a", "1")}, nil) && runs == 1 && yield(nil, io.ErrUnexpectedEOF)
			if runs == 2 {
				stop()
				require.False(t, yield(nil, nil))
			}
		}
	})
	require.NoError(t, err)
	require.ErrorIs(t, src.Run(ctx, ignoreEvent), io.ErrUnexpectedEOF)
	require.Equal(t, []string{"ADD a/1"}, trace(m.Changes("mine")), "the last good set")
	require.NoError(t, src.Run(ctx, ignoreEvent))
	require.Empty(t, m.Changes("mine"))
}

func TestConstructorErrors(t *testing.T) {
	m, sets := newMerger(t, MergerConfig{}), make(chan []*v1.Pod)
	_, err := FromChannel(m.Merger, "", sets)
	require.ErrorIs(t, err, ErrNoSource)
	_, err = FromChannel(nil, "x", nil)
	require.EqualError(t, err, "podsource: FromChannel's Merger is required\npodsource: FromChannel's channel is required")
	_, err = FromSeq(m.Merger, "", func(context.Context) iter.Seq2[[]*v1.Pod, error] { return nil })
	require.ErrorIs(t, err, ErrNoSource)
	_, err = FromSeq(nil, "x", nil)
	require.EqualError(t, err, "podsource: FromSeq's Merger is required\npodsource: FromSeq's function is required")
}

// S4: the pods of a set are copies with annotations for their source and the time when they were
// first seen. A pod with another name is another pod.
func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerger(t, MergerConfig{})
		set := func(given ...*v1.Pod) (out []*v1.Pod) {
			require.NoError(t, m.Set("s", given))
			out, _ = m.Pods("s")
			require.Len(t, out, len(given))
			for i, pod := range out {
				require.NotSame(t, given[i], pod)
				require.Equal(t, given[i].Name, pod.Name)
				require.Equal(t, "s", pod.Annotations[podfacts.ConfigSource])
				require.NotContains(t, given[i].Annotations, podfacts.ConfigSource)
			}
			return out
		}
		seen := func(pod *v1.Pod) string { return pod.Annotations[podfacts.ConfigSeen] }
		annotated := newPod("b", "2", func(pod *v1.Pod) { pod.Annotations = map[string]string{"mine": "1"} })
		first := time.Now().Format(time.RFC3339Nano)
		pods := set(newPod("a", "1"), annotated)
		require.Equal(t, []string{first, first, "1"}, []string{seen(pods[0]), seen(pods[1]), pods[1].Annotations["mine"]})
		time.Sleep(time.Second)
		later := time.Now().Format(time.RFC3339Nano)
		pods = set(newPod("a", "1"), newPod("c", "2"), newPod("d", "3"))
		require.Equal(t, []string{first, later, later}, []string{seen(pods[0]), seen(pods[1]), seen(pods[2])})
	})
}
