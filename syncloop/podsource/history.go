package podsource

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Problem is a manifest, or the configured path, that cannot be used.
type Problem struct {
	// Path is the file, or the configured path.
	Path string `json:"path"`
	// Message is the reason, with the field if there is one.
	Message string `json:"message"`
	// Since is the time when the trouble began.
	Since time.Time `json:"since"`
	// KeptLastGood is true if the pod of the last good version continues.
	KeptLastGood bool `json:"keptLastGood,omitempty"`
	// NoAnswer is true if the current content is unknown: reading the file blocks, or the folder
	// cannot be listed.
	NoAnswer bool `json:"noAnswer,omitempty"`
	// rival is the pod of a valid manifest that is refused in favour of another manifest.
	rival *v1.Pod
}

// history converts snapshots to sets of pods. It stores good versions, so that an edit in progress
// neither removes a pod nor replaces it by an incomplete one. It is pure.
type history struct {
	// root is the folder of the manifests, or the single manifest.
	root   string
	decode func(path string, data []byte) (*v1.Pod, error)
	// removalDelay is the time after which the manifests of a vanished or replaced folder are removed.
	removalDelay time.Duration
	// settle is the time after which the pod of a missing file is removed and a problem is
	// reported.
	settle time.Duration
	// wasDeleted reports whether a missing file was deleted: its pod does not wait for settle.
	wasDeleted func(path string) bool
	// returned reports whether a file was deleted and written again since the last snapshot.
	returned func(path string) bool
	// loadStored returns the pod of a manifest's last good version from before this process, or nil.
	loadStored func(path string) *v1.Pod
	// wasStored reports whether a manifest had such a version.
	wasStored func(path string) bool

	trouble trouble // of root
	// missingSince is the time since which the folder is missing.
	missingSince time.Time
	files        map[string]*manifest
	// handled reports whether the newest set was handled.
	handled func() bool
	// absent are deleted files with the time until which they are ignored.
	absent map[string]time.Time
}

type manifest struct {
	path string
	// content is the digest of the last decoded version. stamp identifies that version.
	content [sha256.Size]byte
	stamp   stamp
	decoded bool
	// good is the pod of the last good version, or nil. accepted is the identity of the file's pod
	// in the last set, zero without one. wasStored is true for a file that was in the set of an
	// earlier process.
	good      *v1.Pod
	accepted  identity
	wasStored bool
	// unsaved is the text of good until it has been in a set.
	unsaved []byte
	// bad is the error of the newest version. unresponsive is true if the newest version cannot be read.
	bad          string
	unresponsive bool
	// dangling is true for a link to a missing file. Its pod ends like the pod of a missing file.
	dangling bool
	// folder is the folder in which the file was last seen. missingSince is the time since which it
	// is missing.
	folder       folderID
	missingSince time.Time
	trouble      trouble
}

func (m *manifest) inSet() bool { return m.accepted != identity{} }

// rank orders manifests with the same pod: first the file that already owns the pod, then
// a file whose earlier version owned its name, then a file that had it before a restart of
// the agent.
func (m *manifest) rank() int {
	switch {
	case m.good != nil && m.accepted == identityOf(m.good):
		return 0
	case m.good != nil && m.accepted.name == identityOf(m.good).name:
		return 1
	case m.wasStored:
		return 2
	}
	return 3
}

// trouble is a problem with its start.
type trouble struct {
	text  string
	since time.Time
	// rival is the pod of a manifest that is refused in favour of another manifest.
	rival *v1.Pod
	// unresponsive is true if the file or folder does not respond.
	unresponsive bool
}

// set updates the text. since is the start of an uninterrupted trouble.
func (t *trouble) set(text string, now time.Time) {
	if t.text == "" {
		t.since = now
	}
	t.text, t.rival = text, nil
}

// outcome is the result of one snapshot.
type outcome struct {
	// pods is the complete set, sorted by path. paths are the files of the pods.
	pods  []*v1.Pod
	paths map[types.UID]string
	// hasSet is false if the existing files are unknown, so that there is no set.
	hasSet bool
	// replaced is true if manifests are missing because another folder is at the path; their pods
	// continue.
	replaced bool
	// unsettled is true if files are being written.
	unsettled bool
	// problems are all problems, sorted by path.
	problems []Problem
	// recheck is the time until the next scan without a trigger, 0 for none.
	recheck time.Duration
	// goodVersions are new good versions by path. removed is true if manifests were removed.
	goodVersions map[string][]byte
	removed      bool
}

// rescanWithin ensures a scan within d.
func (v *outcome) rescanWithin(d time.Duration) {
	if v.recheck == 0 || d < v.recheck {
		v.recheck = max(d, time.Millisecond)
	}
}

func (v *outcome) addGoodVersion(path string, data []byte) {
	if v.goodVersions == nil {
		v.goodVersions = map[string][]byte{}
	}
	v.goodVersions[path] = data
}

// apply processes a snapshot. busy returns for how long a file with a modification time must not
// be read because it is being written; 0 means that it is complete.
func (l *history) apply(s snapshot, busy func(path string, modTime time.Time) time.Duration, now time.Time) outcome {
	v := outcome{hasSet: !s.unknown}
	waiting := l.waitsForFolder(s, now)
	if waiting {
		v.hasSet, s.problem = false, fmt.Sprintf("is missing: its pods continue for %s", l.removalDelay)
	}
	if v.hasSet {
		l.applyFiles(s, busy, now, &v)
	} else {
		v.rescanWithin(retry)
	}
	if v.replaced {
		s.problem = fmt.Sprintf("was replaced by another folder or file: pods of missing manifests continue for %s", l.removalDelay)
	}
	l.trouble.set(s.problem, now)
	l.trouble.unresponsive = s.unknown
	l.decide(now, &v)
	l.collect(now, &v)
	return v
}

// waitsForFolder reports whether the pods of a missing folder continue: it may have been moved away
// briefly. Files that were deleted with it are removed.
func (l *history) waitsForFolder(s snapshot, now time.Time) bool {
	if !s.missing {
		if !s.unknown {
			l.missingSince = time.Time{}
		}
		return false
	}
	if l.missingSince.IsZero() {
		l.missingSince = now
	}
	if now.Sub(l.missingSince) >= l.removalDelay {
		return false
	}
	for path, m := range l.files {
		if m.inSet() && path != l.root && !l.wasDeleted(path) {
			return true
		}
	}
	return false
}

// stampOf returns the stamp of a file's last decoded version, or the zero stamp.
func (l *history) stampOf(path string) stamp {
	if m := l.files[path]; m != nil && m.decoded {
		return m.stamp
	}
	return stamp{}
}

func (l *history) applyFiles(s snapshot, busy func(string, time.Time) time.Duration, now time.Time, v *outcome) {
	present := make(map[string]bool, len(s.files))
	handled := l.handled()
	maps.DeleteFunc(l.absent, func(_ string, until time.Time) bool {
		return handled && !now.Before(until) || now.Sub(until) >= longestAbsence-absence
	})
	for _, r := range s.files {
		if m := l.files[r.path]; m != nil && m.inSet() && !r.dangling && l.returned(r.path) {
			v.removed = true
			l.remove(r.path, now)
		}
		if until, ok := l.absent[r.path]; ok {
			v.rescanWithin(cmp.Or(max(until.Sub(now), 0), absence))
			continue
		}
		present[r.path] = !r.dangling
		m, ok := l.files[r.path]
		if !ok {
			m = &manifest{path: r.path, wasStored: l.wasStored(r.path)}
			l.files[r.path] = m
		}
		m.folder = s.folder
		if m.dangling = r.dangling; m.dangling {
			m.bad, m.decoded, m.unresponsive = r.problem, false, false
			continue
		}
		m.missingSince = time.Time{}
		if m.unresponsive = r.unresponsive; m.unresponsive {
			v.rescanWithin(retry)
		}
		if busyFor := l.applyFile(m, r, busy, now); busyFor > 0 {
			v.unsettled = true
			v.rescanWithin(busyFor)
		}
	}
	for path, m := range l.files {
		if present[path] {
			continue
		}
		_, listed := present[path]
		m.dangling = m.dangling && listed
		if m.missingSince.IsZero() {
			m.missingSince = now
		}
		timeout, inOtherFolder := l.settle, l.wasInOtherFolder(m, s)
		if inOtherFolder {
			timeout = l.removalDelay
		}
		remaining := timeout - now.Sub(m.missingSince)
		if remaining <= 0 || !m.inSet() || l.wasDeleted(path) {
			v.removed = v.removed || !m.dangling || m.inSet() || m.wasStored
			if m.dangling {
				m.good, m.wasStored = nil, false
				continue
			}
			if m.inSet() && l.wasDeleted(path) {
				l.remove(path, now)
			}
			delete(l.files, path)
			continue
		}
		if inOtherFolder {
			v.replaced = true
			remaining = min(remaining, retry) // no event reports the end of a mount
		}
		v.rescanWithin(remaining)
	}
}

// remove removes a deleted file, for the time absence also if it is back.
func (l *history) remove(path string, now time.Time) {
	delete(l.files, path)
	l.absent[path] = now.Add(absence)
}

// wasInOtherFolder reports whether a missing file was in another folder than the scanned one: the path
// was replaced or mounted over.
func (l *history) wasInOtherFolder(m *manifest, s snapshot) bool {
	return m.path != l.root && m.folder != s.folder && m.folder != folderID{} && s.folder != folderID{}
}

// applyFile processes one file. It returns the time for which the file must not be read because it is
// being written.
func (l *history) applyFile(m *manifest, r reading, busy func(string, time.Time) time.Duration, now time.Time) time.Duration {
	if r.problem != "" {
		l.reject(m, r.problem)
		m.decoded = false
		return 0
	}
	if r.same {
		return 0
	}
	digest := sha256.Sum256(r.data)
	if m.decoded && digest == m.content {
		m.stamp = r.stamp
		return 0
	}
	if busyFor := busy(r.path, r.modTime); busyFor > 0 {
		return busyFor
	}
	m.content, m.stamp, m.decoded = digest, r.stamp, true
	pod, err := l.decode(r.path, r.data)
	if err != nil {
		l.reject(m, err.Error())
		return 0
	}
	m.good, m.bad, m.unsaved = pod, "", r.data
	return 0
}

func (l *history) reject(m *manifest, why string) {
	first := m.bad == "" && m.good == nil
	m.bad = why
	if first {
		m.good = l.loadStored(m.path)
	}
}

// decide accepts the pods of the set and records the trouble of each manifest. Of several files
// with one pod, its present owner keeps it: a copy, by hand or by an editor, must not replace a
// running pod. Of new files the first by name wins.
func (l *history) decide(now time.Time, v *outcome) {
	candidates := slices.SortedFunc(maps.Values(l.files), func(a, b *manifest) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.path, b.path))
	})
	set := newClaims(len(candidates))
	for _, m := range candidates {
		if !m.missingSince.IsZero() && !m.dangling && m.bad != "" {
			m.bad, m.decoded = "", false // the broken file was removed
		}
		refusal := ""
		m.accepted = identity{}
		if m.good != nil {
			refusal = set.add(m.good, m.path)
		}
		m.trouble.set(cmp.Or(m.bad, refusal), now)
		m.trouble.unresponsive = m.unresponsive
		switch {
		case m.good == nil:
		case refusal == "":
			m.accepted = identityOf(m.good)
			if m.unsaved != nil {
				v.addGoodVersion(m.path, m.unsaved)
				m.unsaved = nil
			}
		case m.bad == "":
			m.trouble.rival = m.good
		}
	}
}

// collect lists the pods of the set and the problems that have lasted long enough.
func (l *history) collect(now time.Time, v *outcome) {
	report := func(path string, t *trouble, kept bool) {
		if t.text == "" {
			return
		}
		if remaining := l.settle - now.Sub(t.since); remaining > 0 {
			v.rescanWithin(remaining)
			return
		}
		v.problems = append(v.problems, Problem{Path: path, Message: t.text, Since: t.since, KeptLastGood: kept, NoAnswer: t.unresponsive, rival: t.rival})
	}
	report("", &l.trouble, v.replaced || !l.missingSince.IsZero() && !v.hasSet)
	v.paths = make(map[types.UID]string, len(l.files))
	for _, path := range slices.Sorted(maps.Keys(l.files)) {
		m := l.files[path]
		if m.inSet() {
			v.pods = append(v.pods, m.good)
			v.paths[m.good.UID] = path
		}
		report(path, &m.trouble, m.inSet())
	}
}
