package objects

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// kindFeed watches all objects of a kind after its start.
type kindFeed[T apiserver.Object, L runtime.Object] struct {
	of  *Objects
	cfg apiserver.FeedConfig[T, L]

	mu   sync.Mutex
	feed *apiserver.Feed[T, L]
}

func newKindFeed[T apiserver.Object, L runtime.Object](o *Objects, r apiserver.Resource[T, L], trim func(T), changed func([]types.NamespacedName)) *kindFeed[T, L] {
	return &kindFeed[T, L]{of: o, cfg: apiserver.FeedConfig[T, L]{Resource: r, Trim: trim, OnChange: changed, Logger: o.cfg.Logger}}
}

func (w *kindFeed[T, L]) start() (*apiserver.Feed[T, L], error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.feed != nil {
		return w.feed, nil
	}
	feed, err := apiserver.NewFeed(w.cfg)
	if err != nil {
		return nil, err
	}
	w.of.watches.start(fmt.Sprintf("%T", w.feed), feed.Run)
	w.feed = feed
	return feed, nil
}

// synced returns the watch. It waits for the first list for a short time.
func (w *kindFeed[T, L]) synced(ctx context.Context) (*apiserver.Feed[T, L], error) {
	feed, err := w.start()
	if err == nil {
		err = await(ctx, feed.Synced(), feed.Err)
	}
	return feed, err
}

func (w *kindFeed[T, L]) all(ctx context.Context) ([]T, error) {
	feed, err := w.synced(ctx)
	if err != nil {
		return nil, err
	}
	return feed.All(), nil
}

// trimService removes all fields that environments do not use.
func trimService(s *v1.Service) {
	s.ObjectMeta = metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace, UID: s.UID, ResourceVersion: s.ResourceVersion}
	s.Spec = v1.ServiceSpec{Type: s.Spec.Type, ClusterIP: s.Spec.ClusterIP, ClusterIPs: s.Spec.ClusterIPs, Ports: s.Spec.Ports}
	s.Status = v1.ServiceStatus{}
}

// Services implements request.Services. The error wraps request.ErrNotSynced before the first list.
func (o *Objects) Services(ctx context.Context, namespace string) ([]*v1.Service, error) {
	all, err := o.services.all(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", request.ErrNotSynced, err)
	}
	var out []*v1.Service
	for _, s := range all {
		if s.Namespace == namespace {
			out = append(out, s)
		}
	}
	return out, nil
}

// RuntimeHandler returns the handler of the pod's runtime class, or "" for a pod without one.
func (o *Objects) RuntimeHandler(ctx context.Context, pod *v1.Pod) (string, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return "", nil
	}
	feed, err := o.classes.synced(ctx)
	if err != nil {
		return "", fmt.Errorf("RuntimeClass %s: %w", *name, err)
	}
	class, ok := feed.Get("", *name)
	if !ok {
		return "", fmt.Errorf("RuntimeClass %q: %w", *name, volume.ErrNotFound)
	}
	return class.Handler, nil
}

// KnownHandler is like RuntimeHandler, but does not wait. known is false while the class
// is unknown.
func (o *Objects) KnownHandler(pod *v1.Pod) (handler string, known bool) {
	name := pod.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return "", true
	}
	feed, err := o.classes.start()
	if err != nil {
		return "", false
	}
	class, ok := feed.Get("", *name)
	if !ok {
		return "", false
	}
	return class.Handler, true
}

// CSIDriver implements objects.CSIDrivers.
func (o *Objects) CSIDriver(name string) (*storagev1.CSIDriver, error) {
	feed, err := o.drivers.start()
	if err != nil {
		return nil, err
	}
	if !feed.HasSynced() {
		return nil, fmt.Errorf("CSIDriver %s: not read yet: %w", name, feed.Err())
	}
	if driver, ok := feed.Get("", name); ok {
		return driver, nil
	}
	return nil, objects.NotFound(volume.Object{Kind: objects.KindCSIDriver, Name: name})
}
