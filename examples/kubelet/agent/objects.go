package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// objectKinds are what static pods may refer to where a folder has such objects.
var objectKinds = []string{objects.KindConfigMap, objects.KindSecret, objects.KindServiceAccount, objects.KindTrustBundle, objects.KindCSIDriver}

// lookup finds what pods refer to by name, for volumes, environment and image pulls.
type lookup interface {
	objects.ConfigMaps
	objects.Secrets
	objects.Tokens
	objects.TrustBundles
	objects.CSIDrivers
}

// objectChanges collects the objects that changed until a follower takes them. It is safe for
// concurrent use.
type objectChanges struct {
	signal  run.Signal
	mu      sync.Mutex
	objects map[volume.Object]bool
}

func newObjectChanges() *objectChanges {
	return &objectChanges{signal: run.NewSignal(), objects: map[volume.Object]bool{}}
}

func (c *objectChanges) add(changed []volume.Object) {
	c.mu.Lock()
	for _, o := range changed {
		c.objects[o] = true
	}
	c.mu.Unlock()
	c.signal.Wake()
}

// follow passes changes, earlier ones included, to onChange until ctx ends.
func (c *objectChanges) follow(ctx context.Context, onChange func([]volume.Object)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.signal:
		}
		c.mu.Lock()
		changed := slices.Collect(maps.Keys(c.objects))
		clear(c.objects)
		c.mu.Unlock()
		onChange(changed)
	}
}

// references resolves the objects that pods refer to by name: at an API server, in a folder, or not at all.
type references struct {
	lookup
	accounts credentials.ServiceAccounts // nil without an API server
	folder   *objects.Dir                // nil without --objects-dir
}

func newReferences(cfg *Config, changes *objectChanges, c *cluster) (r references, err error) {
	switch {
	case c != nil:
		return references{lookup: c.objects, accounts: c.objects.Accounts()}, nil
	case cfg.Flags.ObjectsDir == "":
		return references{lookup: nothing{}}, nil
	}
	r.folder, err = objects.NewDir(objects.DirConfig{Path: cfg.Flags.ObjectsDir, OnChange: changes.add, Logger: cfg.Logger})
	r.lookup = r.folder
	return r, err
}

// run keeps what is known of the folder up to date.
func (r references) run(ctx context.Context) error {
	if r.folder == nil {
		<-ctx.Done()
		return nil
	}
	return r.folder.Run(ctx)
}

// health names what does not let itself be read.
func (r references) health() error {
	if r.folder == nil {
		return nil
	}
	return r.folder.CheckHealth()
}

// problems are files that cannot be used.
func (r references) problems() []objects.Problem {
	if r.folder == nil {
		return nil
	}
	return r.folder.Problems()
}

// followObjects has what objects are used for brought up to date until ctx ends.
func (n *node) followObjects(ctx context.Context) error {
	n.in.changes.follow(ctx, n.objectsChanged)
	return nil
}

// objectsChanged tells those whom it concerns that objects are different: volumes, and
// pods that may wait for one for their environment or an image.
func (n *node) objectsChanged(changed []volume.Object) {
	for _, o := range changed {
		n.volumes.manager.Changed(o)
	}
	for uid, pod := range n.lifecycle.current() {
		if slices.ContainsFunc(objects.References(pod), func(o volume.Object) bool { return isOneOf(o, changed) }) {
			n.in.dirty.Emit(syncloop.Event{Kind: syncloop.PodDirty, UID: uid})
		}
	}
}

// isOneOf tells whether a pod that refers to an object, or without a name to any of its
// kind, refers to one of several.
func isOneOf(o volume.Object, several []volume.Object) bool {
	return slices.ContainsFunc(several, func(other volume.Object) bool {
		return o == other || o.Name == "" && o.Kind == other.Kind
	})
}

// errNoObjects says why there are no secrets, nor others.
var errNoObjects = errors.New("standalone: there is no API server to read it from, and no --objects-dir")

// nothing is the lookup of an agent that has neither.
type nothing struct{}

func (nothing) ConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	return nil, errNoObjects
}

func (nothing) Secret(context.Context, string, string) (*v1.Secret, error) { return nil, errNoObjects }

func (nothing) Token(context.Context, objects.TokenRequest) (objects.Token, error) {
	return objects.Token{}, errNoObjects
}

func (nothing) CSIDriver(string) (*storagev1.CSIDriver, error) { return nil, errNoObjects }

func (nothing) TrustBundle(context.Context, string) (string, error) { return "", errNoObjects }

func (nothing) TrustBundlesOf(context.Context, string, *metav1.LabelSelector) ([]string, error) {
	return nil, errNoObjects
}
