package eventsourcetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// loop does what a syncloop.Loop does with a source of pods, when a case says so,
// and checks all that it is handed.
type loop struct {
	*stage
	sub PodsSubject

	mu    sync.Mutex
	dirty bool
	run   *run

	// known are the pods by what was told of them, told how many batches there were.
	known map[types.UID]*v1.Pod
	told  int
	// handed are pods as they were handed out, with copies made then.
	handed []copied
}

type copied struct{ given, then *v1.Pod }

func newLoop(t testing.TB, cfg Config, sub PodsSubject) *loop {
	if err := sub.check(); err != nil {
		t.Fatal(err)
	}
	src := together(append([]syncloop.EventSource{sub.Pods}, sub.Feeds...))
	l := &loop{sub: sub, known: map[types.UID]*v1.Pod{}}
	l.stage = &stage{TB: t, cfg: cfg, subject: Subject{Source: src}}
	return l
}

// begin runs the source and its feeds.
func (l *loop) begin() {
	l.run = l.start(func(e syncloop.Event) {
		if why := malformed(e); why != "" {
			l.Errorf("event %s: %s", describe(e), why)
		}
		if e.Kind == syncloop.PodsChanged && e.Source == l.sub.Source {
			l.mu.Lock()
			l.dirty = true
			l.mu.Unlock()
		}
	})
}

// end stops the source and looks whether what it handed out is as it was.
func (l *loop) end() {
	l.Helper()
	l.run.stop()
	for _, c := range l.handed {
		if !equality.Semantic.DeepEqual(c.given, c.then) {
			l.Errorf("pod %s was changed after it had been handed out", c.then.Name)
		}
	}
}

// settle lets the source see what is there, without asking it for anything.
func (l *loop) settle() { time.Sleep(l.cfg.Settle) }

// take asks for changes if the source said that there are some, and returns them
// as "OP uid uid".
func (l *loop) take() []string {
	l.Helper()
	l.mu.Lock()
	dirty := l.dirty
	l.dirty = false
	l.mu.Unlock()
	if !dirty {
		return nil
	}
	changes := l.sub.Pods.Changes(l.sub.Source)
	l.checkBatch(changes)
	if more := l.sub.Pods.Changes(l.sub.Source); len(more) > 0 {
		l.Errorf("Changes returned what it had returned before: %v", trace(more))
	}
	if l.told == 0 && l.sub.Ready != nil && l.sub.Ready() {
		l.Error("the source is ready before its first set was handled")
	}
	l.sub.Pods.Handled(l.sub.Source)
	if len(changes) > 0 {
		l.told++
	}
	if l.told > 0 && l.sub.Ready != nil && !l.sub.Ready() {
		l.Error("the source is not ready although its first set was handled")
	}
	return trace(changes)
}

// settled lets the source see what is there and returns the changes.
func (l *loop) settled() []string {
	l.Helper()
	l.settle()
	return l.take()
}

// want fails the case unless these are the changes.
func (l *loop) want(why string, got []string, want ...string) {
	l.Helper()
	if !slices.Equal(got, want) {
		l.Fatalf("%s: got %q, want %q", why, got, want)
	}
}

func trace(changes []syncloop.Change) []string {
	var lines []string
	for _, c := range changes {
		var uids []string
		for _, p := range c.Pods {
			uids = append(uids, string(p.UID))
		}
		slices.Sort(uids)
		lines = append(lines, strings.TrimSpace(c.Op.String()+" "+strings.Join(uids, " ")))
	}
	return lines
}

// checkBatch checks the changes of one set and follows them.
func (l *loop) checkBatch(changes []syncloop.Change) {
	l.Helper()
	last := syncloop.Op(0)
	for _, c := range changes {
		if c.Op <= last || c.Op > syncloop.OpReconcile {
			l.Errorf("%s after %s: each operation comes at most once, in the order REMOVE, ADD, UPDATE, DELETE, RECONCILE", c.Op, last)
		}
		last = c.Op
		if c.Source != l.sub.Source {
			l.Errorf("%s is said to come from %q", c.Op, c.Source)
		}
		if len(c.Pods) == 0 && (c.Op != syncloop.OpAdd || l.told > 0) {
			l.Errorf("%s of no pods: only a first set may be empty", c.Op)
		}
		for _, p := range c.Pods {
			if p == nil {
				l.Fatalf("%s of a nil pod", c.Op)
			}
			l.handed = append(l.handed, copied{p, p.DeepCopy()})
			l.follow(c.Op, p)
		}
	}
	l.checkUnique()
}

// follow does to the known pods what a change says.
func (l *loop) follow(op syncloop.Op, p *v1.Pod) {
	l.Helper()
	before := l.known[p.UID]
	if p.UID == "" || p.Name == "" {
		l.Errorf("%s of a pod without name or UID", op)
	}
	switch {
	case op == syncloop.OpAdd && before != nil:
		l.Errorf("ADD of %s, which is there", p.UID)
	case op != syncloop.OpAdd && before == nil:
		l.Errorf("%s of %s, which is not there", op, p.UID)
	case op == syncloop.OpDelete && p.DeletionTimestamp == nil:
		l.Errorf("DELETE of %s, which has no deletion timestamp", p.UID)
	case op == syncloop.OpReconcile && before != nil && !equality.Semantic.DeepEqual(before.Spec, p.Spec):
		l.Errorf("RECONCILE of %s, whose spec has changed", p.UID)
	}
	l.known[p.UID] = p
	if op == syncloop.OpRemove {
		delete(l.known, p.UID)
	}
}

func (l *loop) checkUnique() {
	l.Helper()
	names := map[string]types.UID{}
	for uid, p := range l.known {
		name := podfacts.FullName(p)
		if other, twice := names[name]; twice {
			l.Errorf("%s and %s are both called %s", uid, other, name)
		}
		names[name] = uid
	}
}

// images are the known pods as "uid image", in order.
func (l *loop) images() []string { return images(l.known) }

func images(pods map[types.UID]*v1.Pod) []string {
	var all []string
	for uid, p := range pods {
		all = append(all, fmt.Sprint(uid, " ", p.Spec.Containers[0].Image))
	}
	slices.Sort(all)
	return all
}
