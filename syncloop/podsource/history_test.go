package podsource

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// folder is a scripted folder: file names and contents. A content is
// "<pod name> <uid>", "!<error>" for a bad manifest, or "?<problem>" for a file
// that cannot be read.
type folder map[string]string

const testSettle, testHold = 250 * time.Millisecond, 20 * time.Second

func newHistory() *history {
	return &history{root: "/m", hold: testHold, settle: testSettle, deleted: func(string) bool { return false }, earlier: func(string) *v1.Pod { return nil }, kept: func(string) bool { return false }, files: map[string]*manifest{}, decode: func(path string, data []byte) (*v1.Pod, error) {
		if why, bad := strings.CutPrefix(string(data), "!"); bad {
			return nil, errors.New(why)
		}
		name, uid, _ := strings.Cut(string(data), " ")
		if uid == "" {
			uid = path + "=" + string(data)
		}
		return newPod(name, types.UID(uid)), nil
	}}
}

func (f folder) snapshot() snapshot {
	var s snapshot
	for path, content := range f {
		r := reading{path: path}
		if problem, ok := strings.CutPrefix(content, "?"); ok {
			r.problem = problem
		} else {
			r.data = []byte(content)
		}
		s.files = append(s.files, r)
	}
	return s
}

func complete(string, time.Time) time.Duration { return 0 }

// see applies a folder at a moment and returns the pods' names by path, and the
// problems' paths.
func (l *history) see(f folder, at time.Duration) (pods []string, problems []string, v outcome) {
	v = l.apply(f.snapshot(), complete, time.Unix(0, 0).Add(at))
	for _, pod := range v.pods {
		pods = append(pods, pod.Name+" "+string(pod.UID))
	}
	for _, p := range v.problems {
		problems = append(problems, p.Path+": "+p.Message)
	}
	return pods, problems, v
}

// A manifest that turns bad keeps its last good pod.
func TestHistoryKeepsLastGood(t *testing.T) {
	l := newHistory()
	pods, _, v := l.see(folder{"a": "a 1"}, 0)
	require.Equal(t, []string{"a 1"}, pods)
	require.Zero(t, v.recheck)

	for _, broken := range []string{"!spec.x: Invalid", "?cannot be read", "!other"} {
		l := newHistory()
		l.see(folder{"a": "a 1"}, 0)
		pods, problems, v := l.see(folder{"a": broken}, time.Second)
		require.Equal(t, []string{"a 1"}, pods)
		require.Empty(t, problems, "it may be an edit under way")
		require.Equal(t, testSettle, v.recheck)
		pods, problems, v = l.see(folder{"a": broken}, 2*time.Second)
		require.Equal(t, []string{"a 1"}, pods)
		require.Equal(t, []string{"a: " + broken[1:]}, problems)
		require.True(t, v.problems[0].KeptLastGood)
		require.Equal(t, time.Unix(1, 0), v.problems[0].Since)
		pods, problems, _ = l.see(folder{"a": "a 2"}, 3*time.Second)
		require.Equal(t, []string{"a 2"}, pods)
		require.Empty(t, problems)
	}
	l.dropBroken = true
	pods, _, _ = l.see(folder{"a": "!bad"}, time.Second)
	require.Empty(t, pods)
}

// Only of a folder that is missing, and that had manifests in use which nobody has
// deleted, the pods go on, and only for so long.
func TestHistoryHolds(t *testing.T) {
	start := time.Unix(0, 0)
	used := manifest{accepted: true}
	for name, c := range map[string]struct {
		s        snapshot
		files    map[string]*manifest
		deleted  bool
		vanished time.Time // before
		at       time.Duration
		want     bool
		since    time.Time // vanished afterwards
	}{
		"there":                {snapshot{}, map[string]*manifest{"/m/a": &used}, false, start, time.Second, false, time.Time{}},
		"unknown":              {snapshot{unknown: true}, map[string]*manifest{"/m/a": &used}, false, start, time.Second, false, start},
		"missing":              {snapshot{missing: true}, map[string]*manifest{"/m/a": &used}, false, time.Time{}, time.Second, true, start.Add(time.Second)},
		"still missing":        {snapshot{missing: true}, map[string]*manifest{"/m/a": &used}, false, start.Add(1), testHold, true, start.Add(1)},
		"missing for too long": {snapshot{missing: true}, map[string]*manifest{"/m/a": &used}, false, start.Add(1), testHold + 1, false, start.Add(1)},
		"of no pod":            {snapshot{missing: true}, map[string]*manifest{"/m/a": {}}, false, start.Add(1), 2, false, start.Add(1)},
		"one manifest":         {snapshot{missing: true}, map[string]*manifest{"/m": &used}, false, start.Add(1), 2, false, start.Add(1)},
		"deleted":              {snapshot{missing: true}, map[string]*manifest{"/m/a": &used}, true, start.Add(1), 2, false, start.Add(1)},
		"empty":                {snapshot{missing: true}, nil, false, start.Add(1), 2, false, start.Add(1)},
	} {
		l := newHistory()
		l.files, l.vanished, l.deleted = c.files, c.vanished, func(string) bool { return c.deleted }
		require.Equal(t, c.want, l.holds(c.s, start.Add(c.at)), name)
		require.Equal(t, c.since, l.vanished, name)
	}
}

// A problem is told once it has lasted for the time to settle, not before.
func TestHistoryProblemSettles(t *testing.T) {
	l := newHistory()
	l.see(folder{"a": "!bad"}, 0)
	_, problems, v := l.see(folder{"a": "!bad"}, testSettle-1)
	require.Empty(t, problems)
	require.Positive(t, v.recheck)
	_, problems, _ = l.see(folder{"a": "!bad"}, testSettle)
	require.Equal(t, []string{"a: bad"}, problems)
}

func TestHistoryBadFromTheStart(t *testing.T) {
	l := newHistory()
	_, _, v := l.see(folder{"a": "!bad", "b": "b 1"}, 0)
	require.Len(t, v.pods, 1)
	_, problems, v := l.see(folder{"a": "!bad", "b": "b 1"}, time.Second)
	require.Equal(t, []string{"a: bad"}, problems)
	require.False(t, v.problems[0].KeptLastGood)
	_, problems, v = l.see(folder{"b": "b 1"}, 2*time.Second)
	require.Empty(t, problems)
	require.True(t, v.lost, "there is no pod for which to wait")
	require.Zero(t, v.recheck)

	l = newHistory()
	l.see(folder{"a": "a 1"}, 0)
	l.see(folder{"a": "!bad"}, time.Second)
	_, problems, _ = l.see(folder{}, 2*time.Second)
	require.Empty(t, problems, "nothing is wrong with a file that is not there")
	l.see(folder{"a": "!bad"}, 2*time.Second+time.Millisecond)
	_, problems, _ = l.see(folder{"a": "!bad"}, 3*time.Second)
	require.Equal(t, []string{"a: bad"}, problems, "a file that comes back as bad as it was")
}

// A file that is gone removes its pod, but only when it stays gone.
func TestHistoryRemoval(t *testing.T) {
	l := newHistory()
	l.see(folder{"a": "a 1"}, 0)
	pods, _, v := l.see(folder{}, time.Second)
	require.Equal(t, []string{"a 1"}, pods)
	require.Equal(t, testSettle, v.recheck)
	pods, _, v = l.see(folder{}, time.Second+testSettle)
	require.Empty(t, pods)
	require.Zero(t, v.recheck)
	require.Empty(t, l.files)
}

// Editors leave copies for a moment: no step of them changes the set.
func TestHistoryEditors(t *testing.T) {
	for name, steps := range map[string][]folder{
		"vim: away, new file, backup gone": {{"m~": "x 1~"}, {"m": "", "m~": "x 1~"}, {"m": "x 1", "m~": "x 1~"}, {"m": "x 1"}},
		"sed -i: temporary file first":     {{"m": "x 1", "a-sedXYZ": "x 9"}, {"m": "x 1"}},
		"truncate and write":               {{"m": "!empty"}, {"m": "!half"}, {"m": "x 1"}},
		"gone and back":                    {{}, {"m": "x 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newHistory()
			l.decode = func(path string, data []byte) (*v1.Pod, error) {
				if len(data) == 0 || data[0] == '!' {
					return nil, errors.New("bad")
				}
				pod, uid, _ := strings.Cut(string(data), " ")
				return newPod(pod, types.UID(uid)), nil
			}
			l.see(folder{"m": "x 1"}, 0)
			for i, f := range steps {
				pods, problems, _ := l.see(f, time.Second+time.Duration(i)*50*time.Millisecond)
				require.Equal(t, []string{"x 1"}, pods, "step %d", i)
				require.Empty(t, problems, "step %d", i)
			}
			pods, problems, v := l.see(steps[len(steps)-1], time.Minute)
			require.Equal(t, []string{"x 1"}, pods)
			require.Empty(t, problems)
			require.Zero(t, v.recheck)
		})
	}
}

// A copy does not take a pod over from the manifest that has it, whatever its name
// and however long it is there; the copy is named, with what clashes. It has the pod
// once the other is gone.
func TestHistoryCopy(t *testing.T) {
	l := newHistory()
	l.see(folder{"m": "x 1"}, 0)
	both := folder{"a": "x 2", "m": "x 1", "b": "y 1"}
	pods, problems, v := l.see(both, time.Second)
	require.Equal(t, []string{"x 1"}, pods)
	require.Empty(t, problems)
	require.Equal(t, testSettle, v.recheck)
	require.Empty(t, v.learned, "what is refused is not the good version of anything")
	for _, at := range []time.Duration{time.Second + testSettle, time.Minute} {
		pods, problems, _ = l.see(both, at)
		require.Equal(t, []string{"x 1"}, pods)
		require.Equal(t, []string{"a: metadata.name: pod ns/x is defined by m already", "b: metadata.uid: 1 is the UID of pod ns/x, defined by m, already"}, problems)
	}
	pods, _, _ = l.see(folder{"a": "x 2", "m": "x 3", "b": "y 1"}, 2*time.Minute)
	require.Equal(t, []string{"x 3", "y 1"}, sorted(pods), "a new version keeps the place too")
	l.see(folder{"a": "x 2"}, 3*time.Minute)
	pods, problems, v = l.see(folder{"a": "x 2"}, 4*time.Minute)
	require.Equal(t, []string{"x 2"}, pods)
	require.Empty(t, problems)
	require.Equal(t, map[string][]byte{"a": []byte("x 2")}, v.learned)
}

// A manifest that is edited so that it names another's pod, or its UID, does not get
// it.
func TestHistoryEditedIntoAnother(t *testing.T) {
	for edited, want := range map[string][]string{"y 3": {"y 2"}, "x 2": {"y 2"}} {
		l := newHistory()
		l.see(folder{"a": "x 1", "m": "y 2"}, 0)
		pods, _, _ := l.see(folder{"a": edited, "m": "y 2"}, time.Minute)
		require.Equal(t, want, pods, edited)
		_, problems, v := l.see(folder{"a": edited, "m": "y 2"}, 2*time.Minute)
		require.Len(t, problems, 1)
		require.False(t, v.problems[0].KeptLastGood, "its pod is another manifest's")
	}
}

// A new version of the manifest that has a pod goes before one of another pod, although
// that one is known since before a restart; a manifest of another pod than before is as new
// as a new file.
func TestHistoryClaims(t *testing.T) {
	for _, c := range []struct {
		before, after folder
		want          string
	}{
		{folder{"kept": "y 1", "m": "x 2"}, folder{"kept": "x 3", "m": "x 4"}, "x 4"},
		{folder{"m": "x 1"}, folder{"b": "y 2", "m": "y 3"}, "y 2"},
	} {
		l := newHistory()
		l.kept = func(path string) bool { return path == "kept" }
		l.see(c.before, 0)
		pods, _, _ := l.see(c.after, time.Second)
		require.Equal(t, []string{c.want}, pods)
	}
}

// After a restart of the agent the manifest that had the pod before has it again.
func TestHistoryCopyBeforeRestart(t *testing.T) {
	l := newHistory()
	l.kept = func(path string) bool { return path == "m" }
	pods, _, v := l.see(folder{"a": "x 2", "m": "x 1"}, 0)
	require.Equal(t, []string{"x 1"}, pods)
	require.Equal(t, map[string][]byte{"m": []byte("x 1")}, v.learned)
	l.see(folder{"a": "x 2"}, time.Second)
	_, _, v = l.see(folder{"a": "x 2"}, time.Minute)
	require.Equal(t, map[string][]byte{"a": []byte("x 2")}, v.learned, "it is good now")
}

func sorted(s []string) []string { slices.Sort(s); return s }

// A file being written is left alone; other files are not.
func TestHistoryBusy(t *testing.T) {
	l := newHistory()
	now := time.Unix(0, 0)
	l.see(folder{"a": "a 1"}, 0)
	busy := func(path string, _ time.Time) time.Duration {
		if path == "b" {
			return 0
		}
		return time.Minute
	}
	v := l.apply(folder{"a": "half", "b": "b 2", "c": "half"}.snapshot(), busy, now)
	require.Len(t, v.pods, 2)
	require.True(t, v.unsettled)
	require.Equal(t, time.Minute, v.recheck)
	v = l.apply(folder{"a": "a 1", "b": "b 2"}.snapshot(), busy, now)
	require.False(t, v.unsettled, "content that is known does not have to settle")
	l.see(folder{"b": "b 2"}, time.Second)
	v = l.apply(folder{"a": "a 1", "b": "b 2"}.snapshot(), busy, time.Unix(1, 1))
	require.False(t, v.unsettled, "nor if it was gone for a moment")
	v = l.apply(folder{"a": "half", "b": "b 2"}.snapshot(), func(string, time.Time) time.Duration { return 1 }, time.Unix(2, 0))
	require.True(t, v.unsettled)
	require.Equal(t, time.Millisecond, v.recheck, "soon, not at once")
}

// A version that is known by its stamp is what it was, good or bad, and is not waited for.
func TestHistoryUnchanged(t *testing.T) {
	busy := func(string, time.Time) time.Duration { return time.Hour }
	for content, wrong := range map[string][]Problem{"a 1": nil, "!bad": {{Path: "a", Message: "bad", Since: time.Unix(0, 0)}}} {
		l := newHistory()
		pods, _, _ := l.see(folder{"a": content}, 0)
		v := l.apply(snapshot{files: []reading{{path: "a", same: true}}}, busy, time.Unix(60, 0))
		require.Len(t, v.pods, len(pods), content)
		require.Equal(t, wrong, v.problems, content)
		require.False(t, v.unsettled, content)
		require.Zero(t, v.recheck, content)
	}
}

// When the folder cannot be listed, nothing is concluded from that.
func TestHistoryUnknown(t *testing.T) {
	l := newHistory()
	l.see(folder{"a": "a 1"}, 0)
	s := snapshot{problem: "cannot be read: input/output error", unknown: true}
	v := l.apply(s, complete, time.Unix(1, 0))
	require.False(t, v.known)
	v = l.apply(s, complete, time.Unix(100, 0))
	require.False(t, v.known)
	require.Len(t, v.pods, 1)
	require.Equal(t, retry, v.recheck, "not only after a period")
	require.Equal(t, []Problem{{Message: s.problem, Since: time.Unix(1, 0), NoAnswer: true}}, v.problems)
}

// A folder that has vanished is unknown: its pods go on for the period, and a warning
// says so. It is looked for again soon. When it comes back the pods of files that are
// not in it have their time to settle.
func TestHistoryFolderVanishes(t *testing.T) {
	away := snapshot{problem: "does not exist", missing: true}
	at := func(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }
	l := newHistory()
	v := l.apply(away, complete, at(0))
	require.True(t, v.known, "a folder that has never been there has no manifests")
	l.see(folder{"/m/a": "a 1", "/m/b": "b 2"}, time.Second)
	for _, d := range []time.Duration{2 * time.Second, 3 * time.Second, time.Second + testHold} {
		v = l.apply(away, complete, at(d))
		require.False(t, v.known, d)
		require.LessOrEqual(t, v.recheck, retry, d)
		require.Len(t, v.pods, 2, d)
	}
	require.Len(t, v.problems, 1)
	require.Contains(t, v.problems[0].Message, "has vanished")
	require.True(t, v.problems[0].KeptLastGood)
	require.Equal(t, at(2*time.Second), v.problems[0].Since)

	back := time.Second + testHold + time.Millisecond
	pods, problems, v := l.see(folder{"/m/a": "a 1"}, back)
	require.Equal(t, []string{"a 1", "b 2"}, pods)
	require.Empty(t, problems)
	require.True(t, v.known)
	pods, _, _ = l.see(folder{"/m/a": "a 1"}, back+testSettle)
	require.Equal(t, []string{"a 1"}, pods)

	gone := time.Hour
	require.False(t, l.apply(away, complete, at(gone)).known)
	v = l.apply(away, complete, at(gone+testHold))
	require.True(t, v.known)
	require.Equal(t, testSettle, v.recheck)
	v = l.apply(away, complete, at(gone+testHold+testSettle))
	require.Empty(t, v.pods)
	require.Zero(t, v.recheck)
	v = l.apply(away, complete, at(gone+testHold+2*testSettle))
	require.Equal(t, "does not exist", v.problems[0].Message)
	require.False(t, v.problems[0].KeptLastGood)
}

// Only a file of another folder than the one that was looked at may be hidden.
func TestIsElsewhere(t *testing.T) {
	first, second := folderID{Inode: 2}, folderID{Inode: 3}
	for _, c := range []struct {
		path       string
		then, seen folderID
		want       bool
	}{
		{"/m/a", first, second, true}, {"/m/a", first, first, false}, {"/m/a", folderID{}, second, false}, {"/m/a", first, folderID{}, false}, {"/m", first, second, false},
	} {
		m := &manifest{path: c.path, folder: c.then}
		require.Equal(t, c.want, (&history{root: "/m"}).isElsewhere(m, snapshot{folder: c.seen}), c)
	}
}

// Another folder, or a file, at the folder's place says nothing of the manifests that are
// not in it: something may have been mounted over them. They go on for the period; what
// is there counts at once.
func TestHistoryFolderReplaced(t *testing.T) {
	first, second := folderID{Inode: 2}, folderID{Inode: 3}
	look := func(l *history, at folderID, f folder, after time.Duration) ([]string, outcome) {
		s := f.snapshot()
		s.folder = at
		v := l.apply(s, complete, time.Unix(0, 0).Add(after))
		var pods []string
		for _, pod := range v.pods {
			pods = append(pods, pod.Name)
		}
		return pods, v
	}
	for name, f := range map[string]folder{"folder": {"/m/b": "b 2"}, "file": {"/m": "b 2"}, "bad file": {"/m": "!bad"}, "empty": {}} {
		l := newHistory()
		look(l, first, folder{"/m/a": "a 1"}, 0)
		for _, at := range []time.Duration{time.Second, 2 * time.Second, testHold} {
			pods, v := look(l, second, f, at)
			require.Contains(t, pods, "a", "%s %s", name, at)
			require.True(t, v.known)
			require.NotZero(t, v.recheck)
			require.LessOrEqual(t, v.recheck, retry, "it may be back soon")
			require.Equal(t, len(pods) == 2, name == "folder" || name == "file", name)
		}
		_, v := look(l, second, f, testHold)
		require.Contains(t, v.problems[0].Message, "is another folder, or a file, than before: the pods of what is missing go on for 20s")
		require.True(t, v.problems[0].KeptLastGood)
		pods, v := look(l, second, f, time.Second+testHold)
		require.NotContains(t, pods, "a", name)
		require.Equal(t, name == "bad file", len(v.problems) == 1, name)

		l = newHistory()
		l.deleted = func(string) bool { return true }
		look(l, first, folder{"/m/a": "a 1"}, 0)
		pods, _ = look(l, second, f, time.Second)
		require.NotContains(t, pods, "a", "%s: deleted on purpose", name)
	}
}

// Files that were deleted with their folder are gone, as is a path that was a file.
func TestHistoryFolderDeleted(t *testing.T) {
	away := snapshot{problem: "does not exist", missing: true}
	l := newHistory()
	l.see(folder{"/m/a": "a 1"}, 0)
	l.deleted = func(string) bool { return true }
	v := l.apply(away, complete, time.Unix(1, 0))
	require.True(t, v.known)
	require.Empty(t, v.pods)

	l = newHistory()
	l.see(folder{"/m": "a 1"}, 0)
	v = l.apply(away, complete, time.Unix(1, 0))
	require.True(t, v.known)
	require.Equal(t, testSettle, v.recheck)
}

// A missing file counts as removed after the time to settle, not before.
func TestHistorySettles(t *testing.T) {
	l := newHistory()
	l.see(folder{"a": "a 1", "b": "b 2"}, 0)
	l.see(folder{"a": "a 1"}, time.Second)
	pods, _, v := l.see(folder{"a": "a 1"}, time.Second+testSettle-1)
	require.Equal(t, []string{"a 1", "b 2"}, pods)
	require.Positive(t, v.recheck)
	pods, _, v = l.see(folder{"a": "a 1"}, time.Second+testSettle)
	require.Equal(t, []string{"a 1"}, pods)
	require.Zero(t, v.recheck)
}

// A file that was deleted does not have to stay
// away for a while, one that is merely missing has.
func TestDeletedFileCountsAtOnce(t *testing.T) {
	l := newHistory()
	l.deleted = func(path string) bool { return path == "b" }
	l.see(folder{"a": "a 1", "b": "b 1"}, 0)
	pods, _, v := l.see(folder{}, time.Second)
	require.Equal(t, []string{"a 1"}, pods)
	require.Equal(t, testSettle, v.recheck)
}

// FuzzHistory plays random folders, one per two bytes: which file, and what
// becomes of it. After each step the set is sound, and once everything has
// settled it is what the folder says, whatever happened before.
func FuzzHistory(f *testing.F) {
	f.Add([]byte{0x00, 0x01, 0x10, 0x02, 0x00, 0x03})
	f.Add([]byte{0x01, 0x01, 0x00, 0x02, 0x01, 0x04, 0x00, 0x00, 0x01, 0x05})
	f.Add([]byte("a long and winding story of files that come and go"))
	contents := []string{"", "x 1", "x 2", "y 1", "y", "z", "!bad", "?unreadable"}
	f.Fuzz(func(t *testing.T, script []byte) {
		l, now, files := newHistory(), time.Duration(0), folder{}
		for i := 0; i+1 < len(script); i += 2 {
			path := string(rune('a' + script[i]%4))
			now += time.Duration(script[i]>>4) * 30 * time.Millisecond
			if content := contents[int(script[i+1])%len(contents)]; content == "" {
				delete(files, path)
			} else {
				files[path] = content
			}
			_, _, v := l.see(files, now)
			requireSound(t, l, v)
		}
		l.see(files, now+time.Minute)
		pods, problems, v := l.see(files, now+2*time.Minute)
		require.Zero(t, v.recheck, "nothing is left to wait for")
		again, againProblems, _ := l.see(files, now+3*time.Minute)
		require.Equal(t, pods, again)
		require.Equal(t, problems, againProblems)
		require.Len(t, l.files, len(files))
		for path, content := range files {
			broken := content[0] == '!' || content[0] == '?'
			m := l.files[path]
			require.Equal(t, broken, m.bad != "")
			require.True(t, m.accepted || m.good == nil || m.trouble.text != "", "a pod that is left out has a reason")
		}
	})
}

func requireSound(t *testing.T, l *history, v outcome) {
	t.Helper()
	names, uids := map[string]bool{}, map[types.UID]bool{}
	for _, pod := range v.pods {
		require.False(t, names[pod.Name] || uids[pod.UID], "a pod twice")
		names[pod.Name], uids[pod.UID] = true, true
	}
	for _, m := range l.files {
		if m.good != nil && !m.accepted {
			require.True(t, names[m.good.Name] || uids[m.good.UID], "a good pod is left out only for another one")
		}
		if !m.goneSince.IsZero() {
			require.True(t, v.recheck > 0 && v.recheck <= testSettle, "a file that is gone is looked for again")
		}
	}
}

// A manifest that is broken from the start has the good version of an earlier
// process; once it is good again, that one is history.
func TestEarlierVersion(t *testing.T) {
	l := newHistory()
	l.earlier = func(path string) *v1.Pod { return newPod("earlier-"+path, types.UID("0")) }
	pods, problems, v := l.see(folder{"a": "!no", "b": "b 1"}, 0)
	require.Equal(t, []string{"earlier-a 0", "b 1"}, pods)
	require.Empty(t, v.learned["a"])
	require.Equal(t, "b 1", string(v.learned["b"]))
	require.Empty(t, problems)
	_, problems, v = l.see(folder{"a": "!no", "b": "b 1"}, time.Second)
	require.Equal(t, []string{"a: no"}, problems)
	require.True(t, v.problems[0].KeptLastGood)
	require.Empty(t, v.learned, "nothing is new")
	pods, _, _ = l.see(folder{"a": "a 2", "b": "b 1"}, 2*time.Second)
	require.Equal(t, []string{"a 2", "b 1"}, pods)

	l = newHistory()
	asked := 0
	l.earlier = func(string) *v1.Pod { asked++; return nil }
	l.see(folder{"a": "!no"}, 0)
	l.see(folder{"a": "!never"}, time.Second)
	require.Equal(t, 1, asked, "there is none, whatever is wrong now")

	l = newHistory()
	l.earlier = func(string) *v1.Pod { t.Error("not asked"); return nil }
	l.dropBroken = true
	pods, _, _ = l.see(folder{"a": "!no"}, 0)
	require.Empty(t, pods)
}
