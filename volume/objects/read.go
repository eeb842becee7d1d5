package objects

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/podwright/podwright/internal/files"
	"github.com/podwright/podwright/internal/run"
)

const (
	// maxFile is the most bytes of a file: an object with its data in base64.
	maxFile = 2 << 20
	// youngest is how old a file must be before its times tell whether it has changed:
	// some file systems count in steps of 2 s.
	youngest = 3 * time.Second
	// silence is the problem of what does not answer in time.
	silence = "does not answer: reading it blocks"
)

// stamp is what a file system says about one version of a file.
type stamp = files.Stamp

// readFile reads a file, unless it has the stamp that is known.
func readFile(path string, known stamp) reading {
	r := files.Reader{MaxSize: maxFile, Youngest: youngest}.Read(path, known)
	return reading{data: r.Data, stamp: r.Stamp, modTime: r.ModTime, problem: r.Problem, same: r.Same, vanished: r.Vanished}
}

// found is something in a folder.
type found struct {
	name string
	// folder tells that it is one, or leads to one.
	folder bool
	// id tells it from another thing of that name.
	id uint64
}

// listFolder lists a folder, without what is hidden, and what editors keep.
func listFolder(path string) ([]found, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	out := make([]found, 0, len(entries))
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") {
			continue
		}
		f := found{name: name, folder: e.IsDir()}
		if info, err := e.Info(); err == nil {
			f.id = files.IDOf(info).Inode
		}
		out = append(out, f)
	}
	return out, nil
}

// asker calls what may block for ever, such as a link to a file server that is gone,
// and waits for it no longer than answerTime. A call that the kernel keeps goes on in
// its goroutine; its answer counts when it comes, and until then nobody asks again.
type asker struct {
	calls run.Group
	late  map[question]chan any
}

// question says what is asked of what.
type question struct {
	path string
	id   uint64
}

const (
	// answerTime is how long an answer may take.
	answerTime = 2 * time.Second
	// maxLate bounds the calls that block: each has a thread.
	maxLate = 64
	// together is how many are asked at a time.
	together = 32
)

// ask returns the answers of f in order, nil for those that are late.
func (a *asker) ask(questions []question, f func(i int) any) []any {
	out := make([]any, len(questions))
	for begin := 0; begin < len(questions); begin += together {
		end := min(begin+together, len(questions))
		a.batch(questions[begin:end], out[begin:end], func(i int) any { return f(begin + i) })
	}
	return out
}

func (a *asker) batch(questions []question, out []any, f func(i int) any) {
	asked := make([]chan any, len(questions))
	var next atomic.Int64
	var open []int
	for i, q := range questions {
		if late := a.late[q]; late != nil {
			asked[i] = late
			continue
		}
		if len(a.late) < maxLate {
			asked[i] = make(chan any, 1)
			open = append(open, i)
		}
	}
	// One goroutine asks one after the other; as soon as it is stuck, others go on.
	work := func() {
		for n := int(next.Add(1)) - 1; n < len(open); n = int(next.Add(1)) - 1 {
			asked[open[n]] <- f(open[n])
		}
	}
	if len(open) > 0 {
		a.calls.Go(questions[open[0]].path, work)
	}
	a.collect(questions, asked, out, func(i int) { a.calls.Go(questions[i].path, work) })
}

// collect waits for the answers. stuck is called when one does not come soon.
func (a *asker) collect(questions []question, asked []chan any, out []any, stuck func(i int)) {
	deadline := time.NewTimer(answerTime)
	defer deadline.Stop()
	helper := time.NewTicker(answerTime / 40)
	defer helper.Stop()
	expired := false
	for i, answers := range asked {
		if answers == nil {
			continue
		}
		old := a.late[questions[i]] != nil
	wait:
		for {
			select {
			case out[i] = <-answers:
				delete(a.late, questions[i])
				break wait
			default:
			}
			if old || expired {
				if a.late == nil {
					a.late = map[question]chan any{}
				}
				a.late[questions[i]] = answers
				break wait
			}
			select {
			case out[i] = <-answers:
				break wait
			case <-helper.C:
				stuck(i)
			case <-deadline.C:
				expired = true
			}
		}
	}
}

// forget drops late calls that nobody asks about any more.
func (a *asker) forget(asked map[question]bool) {
	for q, answers := range a.late {
		if !asked[q] && len(answers) > 0 {
			delete(a.late, q)
		}
	}
}

func join(root, path string) string { return filepath.Join(root, filepath.FromSlash(path)) }
