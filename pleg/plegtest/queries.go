package plegtest

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/difference"
	"github.com/podwright/podwright/pleg/observed"
)

// queryCases are the rules about one result of ListPods or PodStatus.
func queryCases() []testCase {
	return []testCase{
		{"the status of an absent pod is empty, without an error", unknownPod},
		{"a running pod is listed once, and its status equals the list entry", runningPod},
		{"an exited container stays visible", exitedContainer},
		{"a new instance comes before the old one", newInstance},
		{"a removed pod is absent", removedPod},
		{"every query shows all earlier changes", readYourWrites},
		{"pods of another owner are invisible", foreignPod},
	}
}

func unknownPod(ctx context.Context, p *trial) {
	uid := p.newUID()
	if s := p.status(ctx, uid); !s.Empty() {
		p.fail("PodStatus shows %d sandboxes and %d containers of a pod that does not exist", len(s.Sandboxes), len(s.Containers))
	}
	if p.listed(ctx, uid) != nil {
		p.fail("ListPods shows pod %s, which does not exist", uid)
	}
}

func foreignPod(ctx context.Context, p *trial) {
	if p.Foreign == nil {
		p.add(fmt.Errorf("%w: there is no Subject.Foreign", errSkip))
		return
	}
	own, foreign := p.started(ctx), p.newUID()
	p.change(ctx, foreign, "start a pod of another owner", p.Foreign.Start)
	if s := p.status(ctx, foreign); !s.Empty() {
		p.fail("PodStatus shows %d sandboxes and %d containers of another owner's pod", len(s.Sandboxes), len(s.Containers))
	}
	if p.listed(ctx, foreign) != nil {
		p.fail("ListPods shows pod %s of another owner", foreign)
	}
	p.both(ctx, own)
}

func runningPod(ctx context.Context, p *trial) {
	o, s := p.both(ctx, p.started(ctx))
	for _, c := range s.Containers {
		switch {
		case c.State != observed.StateRunning:
			p.fail("container %q of a started pod is %s", c.Name, c.State)
		case c.ID.ID == "" || c.Name == "":
			p.fail("a container has the ID %q and the name %q: both are required", c.ID, c.Name)
		case !c.FinishedAt.IsZero():
			p.fail("container %q runs and has a FinishedAt", c.Name)
		}
	}
	p.agree(o, s)
}

// agree checks that a list and a status without a change between them are equal. If they differ,
// a PLEG inspects the pod at every list.
func (p *trial) agree(o *observed.ListedPod, s *observed.Pod) {
	near := s.Listed()
	switch {
	case o.Name != s.Name || o.Namespace != s.Namespace:
		p.fail("ListPods returns the pod name %s/%s, PodStatus %s/%s", o.Namespace, o.Name, s.Namespace, s.Name)
	case !slices.Equal(o.Containers, near.Containers):
		p.fail("ListPods shows other containers than PodStatus:\n%s", difference.Of(o.Containers, near.Containers))
	case !slices.Equal(o.Sandboxes, near.Sandboxes):
		p.fail("ListPods shows other sandboxes than PodStatus:\n%s", difference.Of(o.Sandboxes, near.Sandboxes))
	}
}

func exitedContainer(ctx context.Context, p *trial) {
	uid := p.started(ctx)
	before := p.status(ctx, uid)
	p.exit(ctx, uid)
	o, s := p.both(ctx, uid)
	p.agree(o, s)
	for _, c := range before.Containers {
		i := slices.IndexFunc(s.Containers, func(now observed.Container) bool { return now.ID == c.ID })
		switch {
		case i < 0:
			p.fail("container %q is absent after its exit", c.Name)
		case s.Containers[i].State != observed.StateExited:
			p.fail("container %q is %s after its exit", c.Name, s.Containers[i].State)
		case s.Containers[i].Name != c.Name:
			p.fail("container %q has the name %q after its exit", c.Name, s.Containers[i].Name)
		}
	}
}

func newInstance(ctx context.Context, p *trial) {
	uid := p.started(ctx)
	old := p.status(ctx, uid)
	p.exit(ctx, uid)
	p.start(ctx, uid)
	o, s := p.both(ctx, uid)
	for _, was := range old.Containers {
		c := s.Newest(was.Name)
		switch i := slices.IndexFunc(o.Containers, func(x observed.ListedContainer) bool { return x.Name == was.Name }); {
		case c == nil:
			p.fail("container %q is absent after its restart", was.Name)
		case c.ID == was.ID:
			p.fail("the newest instance of container %q is still %s: a new instance must have a new ID and come first", was.Name, c.ID)
		case c.State != observed.StateRunning:
			p.fail("the newest instance of container %q is %s", was.Name, c.State)
		case i < 0 || o.Containers[i].ID != c.ID:
			p.fail("ListPods does not show the newest instance of container %q first", was.Name)
		}
	}
}

func removedPod(ctx context.Context, p *trial) {
	uid := p.started(ctx)
	p.remove(ctx, uid)
	p.absent(ctx, uid)
}

func (p *trial) absent(ctx context.Context, uid types.UID) {
	if p.listed(ctx, uid) != nil {
		p.fail("ListPods shows pod %s, which was removed", uid)
	}
	if s := p.status(ctx, uid); !s.Empty() {
		p.fail("PodStatus shows %d sandboxes and %d containers of a pod that was removed", len(s.Sandboxes), len(s.Containers))
	}
}

// readYourWrites performs the life of a pod several times, with queries after each step. A stale
// cache in the runtime's adapter fails it.
func readYourWrites(ctx context.Context, p *trial) {
	for range 3 {
		uid := p.started(ctx)
		p.all(ctx, uid, observed.StateRunning)
		p.exit(ctx, uid)
		p.all(ctx, uid, observed.StateExited)
		p.remove(ctx, uid)
		p.absent(ctx, uid)
	}
}

// all checks that the list and the status have the containers of a pod in a state.
func (p *trial) all(ctx context.Context, uid types.UID, want observed.State) {
	o, s := p.both(ctx, uid)
	for _, c := range o.Containers {
		if c.State != want {
			p.fail("ListPods shows container %q as %s when it is %s", c.Name, c.State, want)
		}
	}
	for _, c := range s.Containers {
		if c.State != want {
			p.fail("PodStatus shows container %q as %s when it is %s", c.Name, c.State, want)
		}
	}
}
