package podsource

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// folder is a scripted folder: file names and contents. A content is "<pod name> <uid>",
// "!<error>" for a bad manifest, "?<problem>" for an unreadable file, or "..." for a file that
// does not respond, "->" for a link to a missing file. The content of "@" is the folder's inode.
type folder map[string]string

const testSettle, testHold = 250 * time.Millisecond, 20 * time.Second

func newHistory() *history {
	return &history{root: "/m", removalDelay: testHold, settle: testSettle, wasDeleted: func(string) bool { return false }, returned: func(string) bool { return false }, handled: func() bool { return true }, loadStored: func(string) *v1.Pod { return nil }, wasStored: func(string) bool { return false }, files: map[string]*manifest{}, absent: map[string]time.Time{}, decode: func(path string, data []byte) (*v1.Pod, error) {
		if why, bad := strings.CutPrefix(string(data), "!"); bad || why == "" {
			return nil, errors.New(cmp.Or(why, "empty"))
		}
		name, uid, _ := strings.Cut(string(data), " ")
		if uid == "" {
			uid = path + "=" + string(data)
		}
		return newPod(name, types.UID(uid)), nil
	}}
}

func (f folder) snapshot() snapshot {
	if f == nil {
		return snapshot{problem: "does not exist", missing: true}
	}
	var s snapshot
	for path, content := range f {
		if path == "@" {
			s.folder.Inode = uint64(len(content))
			continue
		}
		if content == "..." {
			s.files = append(s.files, unresponsive(path))
			continue
		}
		r := reading{path: path, dangling: content == "->"}
		if problem, ok := strings.CutPrefix(content, "?"); ok {
			r.problem = problem
		} else if r.dangling {
			r.problem = "dangling"
		} else {
			r.data = []byte(content)
		}
		s.files = append(s.files, r)
	}
	return s
}

func complete(string, time.Time) time.Duration { return 0 }

// scan applies a folder at a time and returns the pods' names by path, and the problems' paths.
func (l *history) scan(f folder, at time.Duration) (pods []string, problems []string, v outcome) {
	v = l.apply(f.snapshot(), complete, time.Unix(0, 0).Add(at))
	for _, pod := range v.pods {
		pods = append(pods, pod.Name+" "+string(pod.UID))
	}
	for _, p := range v.problems {
		problems = append(problems, p.Path+": "+p.Message)
	}
	return pods, problems, v
}

// A file that is being written is not read; other files are.
func TestHistoryBusy(t *testing.T) {
	l := newHistory()
	now := time.Unix(0, 0)
	l.scan(folder{"a": "a 1"}, 0)
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
	require.False(t, v.unsettled, "unchanged content does not wait")
	l.scan(folder{"b": "b 2"}, time.Second)
	v = l.apply(folder{"a": "a 1", "b": "b 2"}.snapshot(), busy, time.Unix(1, 1))
	require.False(t, v.unsettled, "also after the file was missing briefly")
	v = l.apply(folder{"a": "half", "b": "b 2"}.snapshot(), func(string, time.Time) time.Duration { return 1 }, time.Unix(2, 0))
	require.True(t, v.unsettled)
	require.Equal(t, time.Millisecond, v.recheck, "the shortest pause is 1 ms")
}

// A file with an unchanged stamp keeps its result, good or bad, and is not waited for.
func TestHistoryUnchanged(t *testing.T) {
	busy := func(string, time.Time) time.Duration { return time.Hour }
	for content, wrong := range map[string][]Problem{"a 1": nil, "!bad": {{Path: "a", Message: "bad", Since: time.Unix(0, 0)}}} {
		l := newHistory()
		pods, _, _ := l.scan(folder{"a": content}, 0)
		v := l.apply(snapshot{files: []reading{{path: "a", same: true}}}, busy, time.Unix(60, 0))
		require.Len(t, v.pods, len(pods), content)
		require.Equal(t, wrong, v.problems, content)
		require.False(t, v.unsettled, content)
		require.Zero(t, v.recheck, content)
	}
}

// A folder that cannot be listed changes no pods.
func TestHistoryUnknown(t *testing.T) {
	l := newHistory()
	l.scan(folder{"a": "a 1"}, 0)
	s := snapshot{problem: "cannot be read: input/output error", unknown: true}
	v := l.apply(s, complete, time.Unix(1, 0))
	require.False(t, v.hasSet)
	v = l.apply(s, complete, time.Unix(100, 0))
	require.False(t, v.hasSet)
	require.Len(t, v.pods, 1)
	require.Equal(t, retry, v.recheck, "the next scan does not wait for the period")
	require.Equal(t, []Problem{{Message: s.problem, Since: time.Unix(1, 0), NoAnswer: true}}, v.problems)
}

// FuzzHistory plays random folders, one change per two bytes. After each step the set is
// consistent. After everything has settled, it matches the folder, independently of earlier steps.
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
			_, _, v := l.scan(files, now)
			requireConsistent(t, l, v)
		}
		l.scan(files, now+time.Minute)
		pods, problems, v := l.scan(files, now+2*time.Minute)
		require.Zero(t, v.recheck, "no further scan is needed")
		again, againProblems, _ := l.scan(files, now+3*time.Minute)
		require.Equal(t, pods, again)
		require.Equal(t, problems, againProblems)
		require.Len(t, l.files, len(files))
		for path, content := range files {
			broken := content[0] == '!' || content[0] == '?'
			m := l.files[path]
			require.Equal(t, broken, m.bad != "")
			require.True(t, m.inSet() || m.good == nil || m.trouble.text != "", "each ignored pod has a problem")
		}
	})
}

func requireConsistent(t *testing.T, l *history, v outcome) {
	t.Helper()
	names, uids := map[string]bool{}, map[types.UID]bool{}
	for _, pod := range v.pods {
		require.False(t, names[pod.Name] || uids[pod.UID], "duplicate pod")
		names[pod.Name], uids[pod.UID] = true, true
	}
	for _, m := range l.files {
		if m.good != nil && !m.inSet() {
			require.True(t, names[m.good.Name] || uids[m.good.UID], "a good pod is ignored only in favour of another")
		}
		if !m.missingSince.IsZero() {
			require.True(t, v.recheck > 0 && v.recheck <= testSettle, "a missing file causes another scan")
		}
	}
}
