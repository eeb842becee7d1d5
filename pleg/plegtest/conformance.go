package plegtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
)

// Config tells Run what it tests.
type Config struct {
	// Start makes the runtime that one case uses, or connects to one. It is
	// called once per case, inside Around, and cleans up with t.Cleanup. The
	// runtime may be shared: cases use pods of their own. Required.
	Start func(t *testing.T) Subject
	// Around runs each case. synctest.Test fits here for a runtime that lives
	// in memory. nil: the case is called as it is.
	Around func(t *testing.T, test func(t *testing.T))
}

// Subject is a runtime under test, and what changes its pods.
type Subject struct {
	// Runtime is what is tested. If it implements pleg.EventStream, that is, too.
	Runtime pleg.Runtime
	// Pods makes things happen in it.
	Pods Pods
}

// Pods makes things happen to the pods of a runtime. Each method returns when it is
// done: a query that begins later shows it. Methods are called for different pods
// at the same time.
type Pods interface {
	// Start starts a pod with at least one container, or, if the pod's
	// containers have exited, a new instance of each.
	Start(ctx context.Context, uid types.UID) error
	// Exit ends all running containers of the pod, which stay as exited. Whether
	// its sandbox goes on is up to the runtime.
	Exit(ctx context.Context, uid types.UID) error
	// Remove removes all that the runtime has of the pod, running or not. A
	// pod that does not exist is no error.
	Remove(ctx context.Context, uid types.UID) error
}

// patience is the time for which a case waits for an event. The rest of a case may
// take as long.
const patience = 30 * time.Second

// errSkip is the result of a case that the runtime has no part in.
var errSkip = errors.New("not applicable")

// testCase is one thing that a runtime must do. Its name is the rule. Its violation is the
// first error of the trial.
type testCase struct {
	name string
	run  func(ctx context.Context, p *trial)
}

func cases() []testCase {
	return append(append(queryCases(), lastingCases()...), watchCases()...)
}

// Run tests a runtime: one subtest per rule of pleg.Runtime and pleg.EventStream,
// and what a PLEG makes of them.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.Start == nil {
		t.Fatal("plegtest: Config.Start is required")
	}
	if cfg.Around == nil {
		cfg.Around = func(t *testing.T, test func(t *testing.T)) { test(t) }
	}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			cfg.Around(t, func(t *testing.T) {
				switch err := c.try(t.Context(), cfg.Start(t), patience); {
				case errors.Is(err, errSkip):
					t.Skip(err)
				case err != nil:
					t.Error(err)
				}
			})
		})
	}
}

// try runs the case on a subject and removes its pods.
func (c testCase) try(ctx context.Context, s Subject, patience time.Duration) error {
	p := &trial{Subject: s, patience: patience, id: rand.Text()[:8]}
	limited, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	c.run(limited, p)
	err := p.err
	cleaning, cancelCleaning := context.WithTimeout(ctx, patience)
	defer cancelCleaning()
	for i := range p.pods {
		err = errors.Join(err, wrap("clean up", s.Pods.Remove(cleaning, p.uid(i))))
	}
	return err
}

// trial is a case at work. The suite's pods have UIDs that nobody else uses. Changes of pods
// do nothing after the first error.
type trial struct {
	Subject
	patience time.Duration
	id       string
	pods     int

	mu  sync.Mutex
	err error // the first one
}

// add records an error, if it is the first.
func (p *trial) add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

func (p *trial) fail(format string, args ...any) { p.add(fmt.Errorf(format, args...)) }

func (p *trial) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

func (p *trial) uid(i int) types.UID { return types.UID(fmt.Sprintf("plegtest-%s-%d", p.id, i)) }

// newUID returns the UID of a pod that does not exist yet.
func (p *trial) newUID() types.UID {
	p.pods++
	return p.uid(p.pods - 1)
}

// started starts a new pod.
func (p *trial) started(ctx context.Context) types.UID {
	uid := p.newUID()
	p.start(ctx, uid)
	return uid
}

func (p *trial) start(ctx context.Context, uid types.UID) {
	p.change(ctx, uid, "start a pod", p.Pods.Start)
}

func (p *trial) exit(ctx context.Context, uid types.UID) {
	p.change(ctx, uid, "end a pod's containers", p.Pods.Exit)
}

func (p *trial) remove(ctx context.Context, uid types.UID) {
	p.change(ctx, uid, "remove a pod", p.Pods.Remove)
}

func (p *trial) change(ctx context.Context, uid types.UID, what string, do func(context.Context, types.UID) error) {
	if !p.failed() {
		p.add(wrap(what, do(ctx, uid)))
	}
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// listed returns what a list shows of a pod, nil if nothing.
func (p *trial) listed(ctx context.Context, uid types.UID) (found *observed.ListedPod) {
	list, err := p.Runtime.ListPods(ctx)
	p.add(wrap("ListPods", err))
	for i := range list {
		if list[i].UID != uid {
			continue
		}
		if found != nil {
			p.fail("ListPods shows pod %s twice", uid)
		}
		found = &list[i]
	}
	return found
}

// status returns a look at a pod. After an error it is empty.
func (p *trial) status(ctx context.Context, uid types.UID) *observed.Pod {
	s, err := p.Runtime.PodStatus(ctx, uid)
	switch {
	case err != nil:
		p.fail("PodStatus: %w", err)
	case s == nil:
		p.fail("PodStatus returned neither a status nor an error")
	case s.UID != uid:
		p.fail("PodStatus of pod %s is that of pod %q", uid, s.UID)
	default:
		return s
	}
	return &observed.Pod{}
}

// both returns a pod as the list and as a look show it. It must exist with its containers.
func (p *trial) both(ctx context.Context, uid types.UID) (*observed.ListedPod, *observed.Pod) {
	o := p.listed(ctx, uid)
	if o == nil || len(o.Containers) == 0 {
		p.fail("ListPods does not show pod %s with its containers", uid)
		o = &observed.ListedPod{}
	}
	s := p.status(ctx, uid)
	if len(s.Containers) == 0 {
		p.fail("PodStatus does not show the containers of pod %s", uid)
	}
	return o, s
}
