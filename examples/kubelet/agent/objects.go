package agent

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// named is where this agent finds it: at an API server, in a folder, or nowhere.
type named struct {
	lookup
	folder *objects.Dir // nil without --objects-dir
}

func (g *ground) newNamed(changed func([]volume.Object)) (named, error) {
	if g.cluster != nil {
		return named{lookup: g.cluster.objects}, nil
	}
	if g.cfg.Flags.ObjectsDir == "" {
		return named{lookup: nothing{}}, nil
	}
	folder, err := objects.NewDir(objects.DirConfig{Path: g.cfg.Flags.ObjectsDir, OnChange: changed, Logger: g.cfg.Logger})
	return named{lookup: folder, folder: folder}, err
}

// run keeps what is known of the folder up to date.
func (n named) run(ctx context.Context) error {
	if n.folder == nil {
		<-ctx.Done()
		return nil
	}
	return n.folder.Run(ctx)
}

// health names what does not let itself be read.
func (n named) health() error {
	if n.folder == nil {
		return nil
	}
	return n.folder.CheckHealth()
}

// problems are files that cannot be used.
func (n named) problems() []objects.Problem {
	if n.folder == nil {
		return nil
	}
	return n.folder.Problems()
}

// objectsChanged tells those whom it concerns that objects are different: volumes, and
// pods that may wait for one for their environment or an image.
func (n *node) objectsChanged(changed []volume.Object) {
	for _, o := range changed {
		n.volumes.manager.Changed(o)
	}
	for uid, pod := range n.current() {
		if slices.ContainsFunc(objects.References(pod), func(o volume.Object) bool { return isOneOf(o, changed) }) {
			n.dirty.Emit(syncloop.Event{Kind: syncloop.PodDirty, UID: uid})
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
