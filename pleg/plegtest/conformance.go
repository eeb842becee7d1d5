package plegtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

// testCase is one thing that a runtime must do. Its name is the rule. It says what
// is wrong by its error.
type testCase struct {
	name string
	run  func(ctx context.Context, p *trial) error
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
	err := c.run(limited, p)
	cleaning, cancelCleaning := context.WithTimeout(ctx, patience)
	defer cancelCleaning()
	for i := range p.pods {
		if removeErr := s.Pods.Remove(cleaning, p.uid(i)); removeErr != nil {
			err = errors.Join(err, fmt.Errorf("clean up: %w", removeErr))
		}
	}
	return err
}

// trial is a case at work. The suite's pods have UIDs that nobody else uses.
type trial struct {
	Subject
	patience time.Duration
	id       string
	pods     int
}

func (p *trial) uid(i int) types.UID { return types.UID(fmt.Sprintf("plegtest-%s-%d", p.id, i)) }

// newUID returns the UID of a pod that does not exist yet.
func (p *trial) newUID() types.UID {
	p.pods++
	return p.uid(p.pods - 1)
}

// started starts a new pod.
func (p *trial) started(ctx context.Context) (types.UID, error) {
	uid := p.newUID()
	return uid, p.start(ctx, uid)
}

func (p *trial) start(ctx context.Context, uid types.UID) error {
	return wrap("start a pod", p.Pods.Start(ctx, uid))
}

func (p *trial) exit(ctx context.Context, uid types.UID) error {
	return wrap("end a pod's containers", p.Pods.Exit(ctx, uid))
}

func (p *trial) remove(ctx context.Context, uid types.UID) error {
	return wrap("remove a pod", p.Pods.Remove(ctx, uid))
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// listed returns what a list shows of a pod, nil if nothing.
func (p *trial) listed(ctx context.Context, uid types.UID) (*observed.ListedPod, error) {
	list, err := p.Runtime.ListPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("ListPods: %w", err)
	}
	var found *observed.ListedPod
	for i := range list {
		if list[i].UID != uid {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("ListPods shows pod %s twice", uid)
		}
		found = &list[i]
	}
	return found, nil
}

// status returns a look at a pod.
func (p *trial) status(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	s, err := p.Runtime.PodStatus(ctx, uid)
	switch {
	case err != nil:
		return nil, fmt.Errorf("PodStatus: %w", err)
	case s == nil:
		return nil, errors.New("PodStatus returned neither a status nor an error")
	case s.UID != uid:
		return nil, fmt.Errorf("PodStatus of pod %s is that of pod %q", uid, s.UID)
	}
	return s, nil
}

// both returns a pod as the list and as a look show it. It must exist.
func (p *trial) both(ctx context.Context, uid types.UID) (*observed.ListedPod, *observed.Pod, error) {
	o, err := p.listed(ctx, uid)
	if err != nil {
		return nil, nil, err
	}
	if o == nil || len(o.Containers) == 0 {
		return nil, nil, fmt.Errorf("ListPods does not show pod %s with its containers", uid)
	}
	s, err := p.status(ctx, uid)
	if err != nil {
		return nil, nil, err
	}
	if len(s.Containers) == 0 {
		return nil, nil, fmt.Errorf("PodStatus does not show the containers of pod %s", uid)
	}
	return o, s, nil
}
