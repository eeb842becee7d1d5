package podsource

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
)

// step is one scan of a folder, nil for a missing one: the outcome (see describe) and the pause
// before the next scan.
type step struct {
	at      time.Duration
	folder  folder
	want    string
	recheck time.Duration
}

// describe formats an outcome as "name uid, name uid +stored removed !path: problem (kept)", with
// the prefix "unknown" if there is no set.
func describe(v outcome) string {
	var words, pods []string
	if !v.hasSet {
		words = append(words, "unknown")
	}
	for _, pod := range v.pods {
		pods = append(pods, pod.Name+" "+string(pod.UID))
	}
	if len(pods) > 0 {
		words = append(words, strings.Join(pods, ", "))
	}
	for _, path := range slices.Sorted(maps.Keys(v.goodVersions)) {
		words = append(words, "+"+path)
	}
	if v.removed {
		words = append(words, "removed")
	}
	for _, p := range v.problems {
		words = append(words, fmt.Sprintf("!%s: %s", p.Path, p.Message))
		if p.KeptLastGood {
			words = append(words, "(kept)")
		}
		if p.NoAnswer {
			words = append(words, "(unresponsive)")
		}
	}
	return strings.Join(words, " ")
}

// S6, S7: the last good version of each manifest is used, and a copy does not take a pod over.
func TestHistory(t *testing.T) {
	const s, settle, hold = time.Second, testSettle, testHold
	const another = "was replaced by another folder or file: pods of missing manifests continue for 20s"
	kept := func(path string) func(*history) {
		return func(l *history) { l.wasStored = func(p string) bool { return p == path } }
	}
	deleted := func(path string) func(*history) {
		return func(l *history) { l.wasDeleted = func(p string) bool { return p == path } }
	}
	returned := func(path string) func(*history) {
		return func(l *history) {
			again := true
			l.returned = func(p string) (yes bool) {
				if p == path {
					yes, again = again, false
				}
				return yes
			}
		}
	}
	type test struct {
		setup func(*history)
		steps []step
	}
	tests := map[string]test{
		"a manifest without a good version": {nil, []step{
			{0, folder{"a": "!bad", "b": "b 1"}, "b 1 +b", settle},
			{settle - 1, folder{"a": "!bad", "b": "b 1"}, "b 1", time.Millisecond},
			{settle, folder{"a": "!bad", "b": "b 1"}, "b 1 !a: bad", 0},
			{2 * s, folder{"b": "b 1"}, "b 1 removed", 0},
		}},
		"a bad manifest is removed and restored": {nil, []step{
			{0, folder{"a": "a 1"}, "a 1 +a", 0},
			{s, folder{"a": "!bad"}, "a 1", settle},
			{2 * s, folder{}, "a 1", settle},
			{2*s + 1, folder{"a": "!bad"}, "a 1", settle},
			{3 * s, folder{"a": "!bad"}, "a 1 !a: bad (kept)", 0},
		}},
		"a missing file": {nil, []step{
			{0, folder{"a": "a 1", "b": "b 2"}, "a 1, b 2 +a +b", 0},
			{s, folder{"b": "b 2"}, "a 1, b 2", settle},
			{s + settle - 1, folder{"b": "b 2"}, "a 1, b 2", time.Millisecond},
			{s + settle, folder{"b": "b 2"}, "b 2 removed", 0},
		}},
		"a file that was deleted and written again is removed and returns": {returned("b"), []step{
			{0, folder{"a": "a 1", "b": "b 2"}, "a 1, b 2 +a +b", 0},
			{s, folder{"a": "a 1", "b": "b 2"}, "a 1 removed", absence},
			{s + absence, folder{"a": "a 1", "b": "b 2"}, "a 1, b 2 +b", 0},
		}},
		"a file that returns soon after its deletion waits": {deleted("b"), []step{
			{0, folder{"b": "b 2"}, "b 2 +b", 0},
			{s, folder{}, "removed", 0},
			{s + 1, folder{"b": "b 2"}, "", absence - 1},
			{s + absence, folder{"b": "b 2"}, "b 2 +b", 0},
		}},
		"a deleted file is removed at once, a missing one later": {deleted("b"), []step{
			{0, folder{"a": "a 1", "b": "b 2"}, "a 1, b 2 +a +b", 0},
			{s, folder{}, "a 1 removed", settle},
		}},
		"vim: rename to backup, write new file, delete backup": {nil, []step{
			{0, folder{"m": "x 1"}, "x 1 +m", 0},
			{s, folder{"m~": "x 1~"}, "x 1", settle},
			{s + 50*time.Millisecond, folder{"m": "", "m~": "x 1~"}, "x 1", 200 * time.Millisecond},
			{s + 100*time.Millisecond, folder{"m": "x 1", "m~": "x 1~"}, "x 1 +m", 150 * time.Millisecond},
			{s + 150*time.Millisecond, folder{"m": "x 1"}, "x 1 removed", 0},
		}},
		"sed -i: temporary file first": {nil, []step{
			{0, folder{"m": "x 1"}, "x 1 +m", 0},
			{s, folder{"m": "x 1", "a-sedXYZ": "x 9"}, "x 1", settle},
			{s + 50*time.Millisecond, folder{"m": "x 1"}, "x 1 removed", 0},
		}},
		"truncate and write": {nil, []step{
			{0, folder{"m": "x 1"}, "x 1 +m", 0},
			{s, folder{"m": ""}, "x 1", settle},
			{s + 50*time.Millisecond, folder{"m": "!half"}, "x 1", 200 * time.Millisecond},
			{s + 100*time.Millisecond, folder{"m": "x 1"}, "x 1 +m", 0},
		}},
		"a file is missing briefly": {nil, []step{
			{0, folder{"m": "x 1"}, "x 1 +m", 0},
			{s, folder{}, "x 1", settle},
			{s + 50*time.Millisecond, folder{"m": "x 1"}, "x 1", 0},
		}},
		// A copy does not take a pod over, independently of its name and age.
		"a copy of a manifest": {nil, []step{
			{0, folder{"m": "x 1"}, "x 1 +m", 0},
			{s, folder{"a": "x 2", "m": "x 1", "b": "y 1"}, "x 1", settle},
			{time.Minute, folder{"a": "x 2", "m": "x 1", "b": "y 1"},
				"x 1 !a: metadata.name: pod ns/x is already defined by m !b: metadata.uid: 1 is already the UID of pod ns/x, defined by m", 0},
			{2 * time.Minute, folder{"a": "x 2", "m": "x 3", "b": "y 1"}, "y 1, x 3 +b +m !a: metadata.name: pod ns/x is already defined by m", 0},
			{3 * time.Minute, folder{"a": "x 2"}, "y 1, x 3 !a: metadata.name: pod ns/x is already defined by m", settle},
			{4 * time.Minute, folder{"a": "x 2"}, "x 2 +a removed", 0},
		}},
		"an edit to the name of another pod": {nil, []step{
			{0, folder{"a": "x 1", "m": "y 2"}, "x 1, y 2 +a +m", 0},
			{time.Minute, folder{"a": "y 3", "m": "y 2"}, "y 2", settle},
			{2 * time.Minute, folder{"a": "y 3", "m": "y 2"}, "y 2 !a: metadata.name: pod ns/y is already defined by m", 0},
		}},
		"an edit to the UID of another pod": {nil, []step{
			{0, folder{"a": "x 1", "m": "y 2"}, "x 1, y 2 +a +m", 0},
			{time.Minute, folder{"a": "x 2", "m": "y 2"}, "y 2", settle},
			{2 * time.Minute, folder{"a": "x 2", "m": "y 2"}, "y 2 !a: metadata.uid: 2 is already the UID of pod ns/y, defined by m", 0},
		}},
		"the manifest that owns the pod precedes one from before a restart": {kept("kept"), []step{
			{0, folder{"kept": "y 1", "m": "x 2"}, "y 1, x 2 +kept +m", 0},
			{s, folder{"kept": "x 3", "m": "x 4"}, "x 4 +m", settle},
		}},
		"a manifest with another pod counts as a new file": {nil, []step{
			{0, folder{"m": "x 1"}, "x 1 +m", 0},
			{s, folder{"b": "y 2", "m": "y 3"}, "y 2 +b", settle},
		}},
		"after a restart the previous owner keeps the pod": {kept("m"), []step{
			{0, folder{"a": "x 2", "m": "x 1"}, "x 1 +m", settle},
			{s, folder{"a": "x 2"}, "x 1 !a: metadata.name: pod ns/x is already defined by m", settle},
			{time.Minute, folder{"a": "x 2"}, "x 2 +a removed", 0},
		}},
		"a broken manifest uses the version of an earlier process": {func(l *history) {
			l.loadStored = func(path string) *v1.Pod { return newPod("earlier-"+path, types.UID("0")) }
		}, []step{
			{0, folder{"a": "!no", "b": "b 1"}, "earlier-a 0, b 1 +b", settle},
			{s, folder{"a": "!no", "b": "b 1"}, "earlier-a 0, b 1 !a: no (kept)", 0},
			{2 * s, folder{"a": "a 2", "b": "b 1"}, "a 2, b 1 +a", 0},
		}},
		// The folder is unknown: its pods continue for the period, and a rescan follows soon.
		"a folder is missing and returns": {nil, []step{
			{0, nil, "", settle},
			{s, folder{"/m/a": "a 1", "/m/b": "b 2"}, "a 1, b 2 +/m/a +/m/b", 0},
			{2 * s, nil, "unknown a 1, b 2", settle},
			{3 * s, nil, "unknown a 1, b 2 !: is missing: its pods continue for 20s (kept)", retry},
			{s + hold, nil, "unknown a 1, b 2 !: is missing: its pods continue for 20s (kept)", retry},
			{s + hold + 1, folder{"/m/a": "a 1"}, "a 1, b 2", settle},
			{s + hold + 1 + settle, folder{"/m/a": "a 1"}, "a 1 removed", 0},
		}},
		"a folder is missing for longer than the delay": {nil, []step{
			{0, folder{"/m/a": "a 1"}, "a 1 +/m/a", 0},
			{s, nil, "unknown a 1", settle},
			{s + hold, nil, "a 1 !: does not exist", settle},
			{s + hold + settle, nil, "removed !: does not exist", 0},
		}},
		"a missing folder without good manifests": {nil, []step{
			{0, folder{"/m/a": "!bad"}, "", settle},
			{s, nil, "removed", settle},
		}},
		"a folder is deleted with its files": {deleted("/m/a"), []step{
			{0, folder{"/m/a": "a 1"}, "a 1 +/m/a", 0},
			{s, nil, "removed", settle},
		}},
		// A folder may have been mounted over the manifests.
		"the folder is replaced by another": {nil, []step{
			{0, folder{"@": "1", "/m/a": "a 1"}, "a 1 +/m/a", 0},
			{s, folder{"@": "22", "/m/b": "b 2"}, "a 1, b 2 +/m/b", settle},
			{2 * s, folder{"@": "22", "/m/b": "b 2"}, "a 1, b 2 !: " + another + " (kept)", retry},
			{s + hold - 1, folder{"@": "22", "/m/b": "b 2"}, "a 1, b 2 !: " + another + " (kept)", time.Millisecond},
			{s + hold, folder{"@": "22", "/m/b": "b 2"}, "b 2 removed", 0},
		}},
		"the folder is replaced by a bad file": {nil, []step{
			{0, folder{"@": "1", "/m/a": "a 1"}, "a 1 +/m/a", 0},
			{s, folder{"@": "22", "/m": "!bad"}, "a 1", settle},
			{2 * s, folder{"@": "22", "/m": "!bad"}, "a 1 !: " + another + " (kept) !/m: bad", retry},
			{s + hold, folder{"@": "22", "/m": "!bad"}, "removed !/m: bad", 0},
		}},
		"the folder is replaced by an empty one": {nil, []step{
			{0, folder{"@": "1", "/m/a": "a 1"}, "a 1 +/m/a", 0},
			{s, folder{"@": "22"}, "a 1", settle},
			{s + hold, folder{"@": "22"}, "removed", 0},
		}},
		"a folder is replaced after its files were deleted": {deleted("/m/a"), []step{
			{0, folder{"@": "1", "/m/a": "a 1"}, "a 1 +/m/a", 0},
			{s, folder{"@": "22", "/m/b": "b 2"}, "b 2 +/m/b removed", 0},
		}},
		// The pod ends as if the link were deleted, and no stored version revives it.
		"a link whose target is deleted": {func(l *history) {
			l.loadStored = func(string) *v1.Pod { return newPod("earlier", "0") }
		}, []step{
			{0, folder{"a": "a 1"}, "a 1 +a", 0},
			{s, folder{"a": "->"}, "a 1", settle},
			{s + settle - 1, folder{"a": "->"}, "a 1", time.Millisecond},
			{s + settle, folder{"a": "->"}, "removed !a: dangling", 0},
			{2 * s, folder{"a": "->"}, "!a: dangling", 0},
			{3 * s, folder{"a": "!bad"}, "!a: bad", 0},
			{4 * s, folder{"a": "a 1"}, "a 1 +a", 0},
			{5 * s, folder{"a": "->"}, "a 1", settle},
			{5*s + 1, folder{"a": "a 1"}, "a 1 +a", 0},
			{6 * s, folder{"a": "!bad"}, "a 1", settle},
			{7 * s, folder{"a": "->"}, "a 1 !a: dangling (kept)", settle},
			{7*s + settle, folder{}, "removed", 0},
		}},
		"a link whose target was deleted before a restart": {kept("a"), []step{
			{0, folder{"a": "->"}, "removed", settle},
			{s, folder{"a": "->"}, "!a: dangling", 0},
			{2 * s, folder{}, "removed", 0},
		}},
		"an unresponsive file keeps its pod": {nil, []step{
			{0, folder{"a": "a 1"}, "a 1 +a", 0},
			{s, folder{"a": "..."}, "a 1", settle},
			{time.Minute, folder{"a": "..."}, "a 1 !a: " + fs.Silence + " (kept) (unresponsive)", retry},
		}},
		"an unresponsive file with the pod of another manifest": {nil, []step{
			{0, folder{"a": "x 1", "b": "x 2"}, "x 1 +a", settle},
			{time.Minute, folder{"a": "x 1", "b": "x 2"}, "x 1 !b: metadata.name: pod ns/x is already defined by a", 0},
			{2 * time.Minute, folder{"a": "x 1", "b": "..."}, "x 1 !b: " + fs.Silence + " (unresponsive)", retry},
		}},
		"a single manifest is missing": {nil, []step{
			{0, folder{"/m": "a 1"}, "a 1 +/m", 0},
			{s, nil, "a 1", settle},
		}},
	}
	for _, broken := range []string{"!spec.x: Invalid", "?cannot be read"} {
		tests["the last good version stays: "+broken] = test{nil, []step{
			{0, folder{"a": "a 1"}, "a 1 +a", 0},
			{s, folder{"a": broken}, "a 1", settle},
			{2 * s, folder{"a": broken}, "a 1 !a: " + broken[1:] + " (kept)", 0},
			{3 * s, folder{"a": "a 2"}, "a 2 +a", 0},
		}}
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			l := newHistory()
			if c.setup != nil {
				c.setup(l)
			}
			for _, step := range c.steps {
				_, _, v := l.scan(step.folder, step.at)
				require.Equal(t, step.want, describe(v), step.at)
				require.Equal(t, step.recheck, v.recheck, step.at)
			}
		})
	}
}
