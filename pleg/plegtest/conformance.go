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

	"github.com/podwright/podwright/internal/bubbletest"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
)

// Config configures Run.
type Config struct {
	// Start creates the runtime of one case, or connects to one. It is called once per case,
	// inside Around, and cleans up with t.Cleanup. The runtime may be shared: cases use their
	// own pods. Required.
	Start func(t *testing.T) Subject
	// Around runs each case. Use synctest.Test for an in-memory runtime. A case that stops the clock
	// of its bubble, such as by waiting for a socket, fails after seconds. Default: a direct call.
	Around func(t *testing.T, test func(t *testing.T))
}

// Subject is a runtime under test, and the changes of its pods.
type Subject struct {
	// Runtime is the runtime under test. If it implements pleg.EventStream, that is tested as
	// well.
	Runtime pleg.Runtime
	// Pods changes pods of the runtime.
	Pods Pods
	// Foreign changes pods of another owner in the same runtime, which must be invisible. Optional:
	// without it the rule about owners is skipped.
	Foreign Pods
}

// Pods changes pods of a runtime. Each method returns when the change is done: a query that
// begins later shows it. Methods are called concurrently for different pods.
type Pods interface {
	// Start starts a pod with at least one container. If the pod's containers have exited, it
	// starts a new instance of each.
	Start(ctx context.Context, uid types.UID) error
	// Exit ends all running containers of the pod, which remain as exited. The runtime decides
	// whether the sandbox continues.
	Exit(ctx context.Context, uid types.UID) error
	// Remove removes the pod from the runtime, running or not. A pod that does not exist is no
	// error.
	Remove(ctx context.Context, uid types.UID) error
}

// timeout bounds the wait of a case for an event, and the rest of a case as well.
const timeout = 30 * time.Second

// errSkip is the result of a case that does not apply to the runtime.
var errSkip = errors.New("not applicable")

// testCase is one rule for runtimes. Its name is the rule, its violation the first error of the
// trial.
type testCase struct {
	name string
	run  func(ctx context.Context, p *trial)
}

func cases() []testCase {
	return append(append(queryCases(), repeatCases()...), watchCases()...)
}

// Run tests a runtime: one subtest per rule of pleg.Runtime, of pleg.EventStream, and of a PLEG
// on the runtime.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.Start == nil {
		t.Fatal("plegtest: Config.Start is required")
	}
	suite := bubbletest.Cases{Around: cfg.Around}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			suite.Run(t, func(t *testing.T, tb testing.TB) {
				switch err := c.try(t.Context(), cfg.Start(t), timeout); {
				case errors.Is(err, errSkip):
					tb.Skip(err)
				case err != nil:
					tb.Error(err)
				}
			})
		})
	}
}

// try runs the case on a subject and removes its pods.
func (c testCase) try(ctx context.Context, s Subject, timeout time.Duration) error {
	p := &trial{Subject: s, timeout: timeout, id: rand.Text()[:8]}
	limited, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	c.run(limited, p)
	err := p.err
	cleaning, cancelCleaning := context.WithTimeout(ctx, timeout)
	defer cancelCleaning()
	for i := range p.pods {
		err = errors.Join(err, wrap("clean up", s.Pods.Remove(cleaning, p.uid(i))))
		if s.Foreign != nil {
			err = errors.Join(err, wrap("clean up", s.Foreign.Remove(cleaning, p.uid(i))))
		}
	}
	return err
}

// trial is a running case. The UIDs of its pods are unique. After the first error, changes of
// pods have no effect.
type trial struct {
	Subject
	timeout time.Duration
	id      string
	pods    int

	mu  sync.Mutex
	err error
}

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

func (p *trial) newUID() types.UID {
	p.pods++
	return p.uid(p.pods - 1)
}

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

// listed returns a pod's entry in a list, or nil.
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

// status returns the status of a pod. After an error it is empty.
func (p *trial) status(ctx context.Context, uid types.UID) *observed.Pod {
	s, err := p.Runtime.PodStatus(ctx, uid)
	switch {
	case err != nil:
		p.fail("PodStatus: %w", err)
	case s == nil:
		p.fail("PodStatus returned neither a status nor an error")
	case s.UID != uid:
		p.fail("PodStatus of pod %s returned the status of pod %q", uid, s.UID)
	default:
		return s
	}
	return &observed.Pod{}
}

// both returns a pod's entry in a list and its status. It must exist with its containers.
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
