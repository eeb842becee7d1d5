package podsource

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// answerTime is how long a file may take to be read, at least, or the folder to be
// listed, before the others go on without it.
const answerTime = 2 * time.Second

// silence is the problem of what did not answer in time.
const silence = "does not answer: reading it blocks"

// survey takes snapshots, and waits for nothing longer than answerTime: a link may
// lead to a file server that is gone. A call that the kernel keeps cannot be taken
// back. It goes on in a goroutine of its own; what it finds counts when it comes, and
// until then nothing else is asked of its path.
type survey struct {
	reader
	// read is reader.one, list is reader.list.
	read func(request) reading
	list func(path string) listing

	late map[string]lateRead
	// replaced are late reads of files that are not at their paths any more.
	replaced    []lateRead
	lateListing chan listing
}

// lateRead is a file that has not answered yet, and what was at its path when it was
// asked.
type lateRead struct {
	answers chan reading
	asked   request
}

func newSurvey(r reader) *survey {
	s := &survey{reader: r, late: map[string]lateRead{}}
	// The fields of the reader may still change.
	s.read = func(q request) reading { return s.reader.one(q) }
	s.list = func(path string) listing { return s.reader.list(path) }
	return s
}

// all reads a folder, or a single file. known returns the stamp of the version of
// a file that need not be read again, changed tells that something was said of a
// file.
func (s *survey) all(path string, known func(path string) stamp, changed func(path string) bool) snapshot {
	l, ok := s.listed(path)
	if !ok {
		return snapshot{problem: silence, unknown: true}
	}
	s.forget(l.requests)
	asked, late := l.requests[:0], []reading(nil)
	for _, q := range l.requests {
		q.known = known(q.path)
		if r, waiting := s.belated(q, changed(q.path)); waiting {
			late = append(late, r)
			continue
		}
		asked = append(asked, q)
	}
	l.files = append(s.ask(asked), late...)
	l.files = slices.DeleteFunc(l.files, func(r reading) bool { return r.vanished })
	return l.snapshot
}

// listed lists the path, or returns false when it does not answer.
func (s *survey) listed(path string) (listing, bool) {
	if s.lateListing == nil {
		answer, list := make(chan listing, 1), s.list
		s.lateListing = answer
		go func() { answer <- list(path) }()
	}
	l, ok := receive(s.lateListing, answerTime)
	if ok {
		s.lateListing = nil
	}
	return l, ok
}

// belated returns what there is of a file that was late in an earlier snapshot:
// its answer, or that it is silent. Another file at its path is asked anew.
func (s *survey) belated(q request, changed bool) (r reading, waiting bool) {
	late, ok := s.late[q.path]
	if !ok {
		return r, false
	}
	if changed || !sameEntry(late.asked.link, q.link) {
		if s.unanswered() >= maxReplaced {
			return silent(q.path), true
		}
		s.replace(late)
		return r, false
	}
	select {
	case r = <-late.answers:
		delete(s.late, q.path)
	default:
		r = silent(q.path)
	}
	return r, true
}

func silent(path string) reading { return reading{path: path, problem: silence, silent: true} }

func sameEntry(a, b fs.FileInfo) bool {
	return a == nil && b == nil || os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}

// forget drops what was late and is not listed any more.
func (s *survey) forget(listed []request) {
	for path, late := range s.late {
		if !slices.ContainsFunc(listed, func(q request) bool { return q.path == path }) {
			s.replace(late)
		}
	}
}

// maxReplaced bounds the reads that block for files which are not there any more: each
// has a thread.
const maxReplaced = 16

func (s *survey) unanswered() int {
	s.replaced = slices.DeleteFunc(s.replaced, func(l lateRead) bool { return len(l.answers) > 0 })
	return len(s.replaced)
}

func (s *survey) replace(late lateRead) {
	delete(s.late, late.asked.path)
	s.replaced = append(s.replaced, late)
}

// ask reads files one after the other. Once one of them is late the rest are read
// side by side, so that many take no longer than two.
func (s *survey) ask(asked []request) []reading {
	w := s.start(asked)
	for seen := 0; ; seen = w.progress() {
		if _, ok := receive(w.done, answerTime); ok {
			return w.answers
		}
		if w.leave(seen) {
			break
		}
	}
	answers, rest := append(w.answers, s.isLate(w, asked[len(w.answers)])), asked[len(w.answers)+1:]
	workers := make([]*worker, 0, len(rest))
	for i := range rest {
		workers = append(workers, s.start(rest[i:i+1]))
	}
	deadline := time.Now().Add(answerTime)
	for i, w := range workers {
		if _, ok := receive(w.done, time.Until(deadline)); !ok && w.leave(0) {
			answers = append(answers, s.isLate(w, rest[i]))
			continue
		}
		answers = append(answers, w.answers...)
	}
	return answers
}

// isLate notes that a worker was left with a file.
func (s *survey) isLate(w *worker, q request) reading {
	s.late[q.path] = lateRead{w.late, q}
	return silent(q.path)
}

// join waits until everything that was late has answered, for limit at most, and
// returns the paths of what has not.
func (s *survey) join(root string, limit time.Duration) (running []string) {
	deadline := time.Now().Add(limit)
	if s.lateListing != nil {
		if _, ok := receive(s.lateListing, limit); !ok {
			running = append(running, root)
		}
	}
	for _, late := range slices.AppendSeq(s.replaced, maps.Values(s.late)) {
		if _, ok := receive(late.answers, time.Until(deadline)); !ok {
			running = append(running, late.asked.path)
		}
	}
	slices.Sort(running)
	return running
}

// worker reads files one after the other until it is left.
type worker struct {
	// done is closed when all are read, late gets the file that it was left with.
	done chan struct{}
	late chan reading

	mu      sync.Mutex
	answers []reading
	left    bool
}

func (s *survey) start(files []request) *worker {
	w := &worker{done: make(chan struct{}), late: make(chan reading, 1), answers: make([]reading, 0, len(files))}
	read := s.read
	go func() {
		for _, q := range files {
			if !w.add(read(q)) {
				return
			}
		}
		close(w.done)
	}()
	return w
}

// add takes an answer and tells whether to go on.
func (w *worker) add(r reading) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left {
		w.late <- r
		return false
	}
	w.answers = append(w.answers, r)
	return true
}

func (w *worker) progress() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.answers)
}

// leave leaves the worker with what it reads, unless it has read more than seen, or
// all.
func (w *worker) leave(seen int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = len(w.answers) == seen && seen < cap(w.answers)
	return w.left
}

// receive waits for an answer for limit at most.
func receive[T any](answers <-chan T, limit time.Duration) (answer T, ok bool) {
	select {
	case answer = <-answers:
		return answer, true
	default:
	}
	select {
	case answer = <-answers:
		return answer, true
	case <-time.After(limit):
		return answer, false
	}
}
