package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Object is a pointer to an object of an API.
type Object interface {
	runtime.Object
	metav1.Object
}

// Resource calls the API for one kind of objects. T is a pointer to an object, L a pointer to a
// list. It follows changes of the kubeconfig, and may be stored. Other goroutines must not read an
// object while it is created or updated, because encoding sets its kind for a moment.
type Resource[T Object, L runtime.Object] struct {
	client    *Client
	kind      kind[T, L]
	namespace string
}

type kind[T Object, L runtime.Object] struct {
	version schema.GroupVersion
	plural  string
	object  func() T
}

// In returns the Resource for one namespace. List and Watch also work without one, for all
// namespaces.
func (r Resource[T, L]) In(namespace string) Resource[T, L] {
	r.namespace = namespace
	return r
}

func (r Resource[T, L]) request(verb string) (*rest.Request, error) {
	c, err := r.client.restFor(r.kind.version)
	if err != nil {
		return nil, err
	}
	return c.Verb(verb).NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.kind.plural), nil
}

// do makes a call other than a watch, and decodes the response. A response of another kind is an
// error: decoded into an O it would be an empty object.
func do[O runtime.Object](ctx context.Context, c *Client, req *rest.Request) (none O, err error) {
	ctx, cancel := c.bounded(logr.NewContext(ctx, logr.Discard())) // errors are returned
	defer cancel()
	got, err := req.Do(ctx).Get()
	if err != nil {
		return none, err
	}
	o, ok := got.(O)
	if !ok {
		return none, fmt.Errorf("apiserver: the response is a %T instead of a %T", got, none)
	}
	return o, nil
}

func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.limits.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.limits.Timeout)
}

// Get reads an object from the server.
func (r Resource[T, L]) Get(ctx context.Context, name string, o metav1.GetOptions) (none T, err error) {
	req, err := r.request("GET")
	if err != nil {
		return none, err
	}
	return do[T](ctx, r.client, req.Name(name).VersionedParams(&o, r.client.codecs.parameters))
}

// errNoVersion is the error of a list without a resource version, such as the response null of a
// broken proxy. It would otherwise be taken for an empty list, and pods would be stopped.
var errNoVersion = errors.New("the response is not a list: it has no resourceVersion")

// List reads objects, in one response unless the options limit it. A response without a resource
// version is an error.
func (r Resource[T, L]) List(ctx context.Context, o metav1.ListOptions) (none L, err error) {
	req, err := r.request("GET")
	if err != nil {
		return none, err
	}
	l, err := do[L](ctx, r.client, req.VersionedParams(&o, r.client.codecs.parameters))
	if err != nil {
		return none, err
	}
	if of, err := meta.ListAccessor(l); err != nil || of.GetResourceVersion() == "" {
		return none, fmt.Errorf("apiserver: list of %s: %w", r.kind.plural, errors.Join(errNoVersion, err))
	}
	return l, nil
}

// watchMargin is the time after the end of a watch at the server when the client ends it.
const watchMargin = 30 * time.Second

// timedWatch releases the timer of a watch when it is stopped.
type timedWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (w timedWatch) Stop() {
	w.cancel()
	w.Interface.Stop()
}

// Watch returns the changes of objects until it is stopped, ctx is done, or the server ends the
// watch. Limits.Timeout does not bound it. It ends 30 s after TimeoutSeconds even if the server hangs.
// A watch that cannot start fails without retries.
func (r Resource[T, L]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	req, err := r.request("GET")
	if err != nil {
		return nil, err
	}
	o.Watch = true
	cancel := context.CancelFunc(func() {})
	if o.TimeoutSeconds != nil {
		limit := time.Duration(*o.TimeoutSeconds) * time.Second
		req = req.Timeout(limit)
		ctx, cancel = context.WithTimeout(ctx, limit+watchMargin)
	}
	w, err := req.VersionedParams(&o, r.client.codecs.parameters).MaxRetries(0).Watch(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return timedWatch{w, cancel}, nil
}

// Create creates an object and returns the server's version of it.
func (r Resource[T, L]) Create(ctx context.Context, obj T, o metav1.CreateOptions) (none T, err error) {
	req, err := r.request("POST")
	if err != nil {
		return none, err
	}
	return do[T](ctx, r.client, req.VersionedParams(&o, r.client.codecs.parameters).Body(obj))
}

// Update replaces an object, or a subresource of it such as "status".
func (r Resource[T, L]) Update(ctx context.Context, obj T, o metav1.UpdateOptions, subresources ...string) (none T, err error) {
	req, err := r.request("PUT")
	if err != nil {
		return none, err
	}
	req = req.Name(obj.GetName()).SubResource(subresources...).VersionedParams(&o, r.client.codecs.parameters)
	return do[T](ctx, r.client, req.Body(obj))
}

// Patch changes an object, or a subresource of it such as "status".
func (r Resource[T, L]) Patch(ctx context.Context, name string, t types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (none T, err error) {
	req, err := r.request("PATCH")
	if err != nil {
		return none, err
	}
	req = req.Name(name).SubResource(subresources...).VersionedParams(&o, r.client.codecs.parameters)
	return do[T](ctx, r.client, req.SetHeader("Content-Type", string(t)).Body(patch))
}

// Delete deletes an object, or starts its deletion.
func (r Resource[T, L]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	req, err := r.request("DELETE")
	if err != nil {
		return err
	}
	ctx, cancel := r.client.bounded(ctx)
	defer cancel()
	return req.Name(name).Body(&o).Do(ctx).Error()
}
