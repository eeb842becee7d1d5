package apitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
)

// Server is an API server in memory. Create it with New, Start, StartSecure or StartTLS. It is safe for
// concurrent use.
type Server struct {
	// Kubeconfig is the path of a kubeconfig for the server. It is empty after New.
	Kubeconfig string

	wire  wire
	kinds map[schema.GroupVersionResource]schema.GroupVersionKind
	faults

	mu     sync.Mutex
	table  table
	tokens int
	security
	reviewers
	endpoint
}

// New returns a Server that only serves as an http.Handler.
func New() *Server {
	scheme := apiserver.Scheme()
	s := &Server{wire: newWire(scheme), kinds: kinds(scheme), table: newTable()}
	s.closing = make(chan struct{})
	return s
}

// Put stores an object as another client would, and returns the stored object. A new object without
// a UID gets one. An existing object keeps its UID.
func (s *Server) Put(obj Object) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.put(s.keyOf(obj), obj).DeepCopyObject().(Object)
}

// Remove removes an object without grace period, as another client would.
func (s *Server) Remove(obj Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.remove(s.keyOf(obj))
}

// Find returns an object from the server, or false if it does not exist. like has its type,
// namespace and name.
func Find[T Object](s *Server, like T) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.table.objects[s.keyOf(like)].(T)
	if !ok {
		return like, false
	}
	return obj.DeepCopyObject().(T), true
}

// Do makes a call about an object without HTTP and without faults. The object is the body of a
// create or an update. A patch changes the object and its status.
func Do[T Object](s *Server, verb string, obj T, patch string) (got T, err error) {
	k := s.keyOf(obj)
	c := Call{Verb: verb, Namespace: k.namespace, Name: k.name, Body: []byte(patch), Header: http.Header{}, gvr: k.resource}
	if verb == "patch" {
		c.Subresource = "status"
		c.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	} else {
		c.Header.Set("Content-Type", "application/json")
		if c.Body, err = json.Marshal(obj); err != nil {
			return got, err
		}
	}
	answer, err := s.answer(c, s.kinds[c.gvr])
	if err != nil {
		return got, err
	}
	return answer.DeepCopyObject().(T), nil
}

// All returns all objects of a type.
func All[T Object](s *Server) (out []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, obj := range s.table.objects {
		if o, ok := obj.(T); ok {
			out = append(out, o.DeepCopyObject().(T))
		}
	}
	return out
}

func (s *Server) keyOf(obj Object) key {
	gvks, _, err := s.wire.scheme.ObjectKinds(obj)
	if err != nil {
		panic(fmt.Sprintf("apitest: %v", err))
	}
	for gvr, gvk := range s.kinds {
		if gvk == gvks[0] {
			return key{gvr, obj.GetNamespace(), obj.GetName()}
		}
	}
	panic(fmt.Sprintf("apitest: the server keeps no %s", gvks[0]))
}

type Call struct {
	// Verb is the verb of the API: get, list, watch, create, update, patch or delete.
	Verb                                   string
	Resource, Subresource, Namespace, Name string
	// User is the common name of the client's certificate, or "" without one.
	User string
	// Header and Query are the request's.
	Header http.Header
	Query  map[string][]string
	// Body is the request's body as sent.
	Body []byte

	gvr schema.GroupVersionResource
}

// String returns a text such as "get pods default/web".
func (c Call) String() string {
	resource := c.Resource
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	return strings.TrimSpace(c.Verb + " " + resource + " " + strings.Trim(c.Namespace+"/"+c.Name, "/"))
}

// parse parses /api/v1/... and /apis/group/version/...
func parse(r *http.Request) (c Call, ok bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		c.gvr.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		c.gvr.Group, c.gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return c, false
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		c.Namespace, parts = parts[1], parts[2:]
	}
	c.gvr.Resource, c.Resource = parts[0], parts[0]
	if len(parts) > 1 {
		c.Name = parts[1]
	}
	if len(parts) > 2 {
		c.Subresource = parts[2]
	}
	c.Header, c.Query = r.Header.Clone(), r.URL.Query()
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		c.User = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	c.Verb = map[string]string{"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}[r.Method]
	switch watch := r.URL.Query().Get("watch"); {
	case c.Verb == "get" && (watch == "true" || watch == "1"):
		c.Verb = "watch"
	case c.Verb == "get" && c.Name == "":
		c.Verb = "list"
	}
	return c, c.Verb != ""
}

func (c Call) key() key { return key{c.gvr, c.Namespace, c.Name} }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := parse(r)
	gvk, known := s.kinds[c.gvr]
	if !ok || !known {
		s.fail(w, r, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, c.gvr.GroupResource(), "", "no such resource", 0, true))
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	c.Body = body
	if s.rejects(w, r, c) || s.faulty(w, r, c) {
		return
	}
	if c.Verb == "watch" {
		s.watch(w, r, c)
		return
	}
	obj, err := s.answer(c, gvk)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	status := http.StatusOK
	if c.Verb == "create" {
		status = http.StatusCreated
	}
	s.write(w, r, status, obj, c.gvr.GroupVersion())
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	answer := status.Status()
	if d := answer.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	s.write(w, r, int(answer.Code), &answer, schema.GroupVersion{Version: "v1"})
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, obj runtime.Object, version schema.GroupVersion) {
	info := s.wire.accepted(r)
	data, err := s.wire.encode(info, obj, version, s.unknownFields.Load())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", info.MediaType)
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client may have disconnected
}

func (s *Server) answer(c Call, gvk schema.GroupVersionKind) (runtime.Object, error) {
	if c.Resource == "serviceaccounts" && c.Subresource == "token" {
		return s.issue(c)
	}
	if c.Resource == "tokenreviews" || c.Resource == "subjectaccessreviews" {
		return s.review(c, gvk)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c.Verb {
	case "get":
		return s.table.get(c.key())
	case "list":
		return s.list(c, gvk)
	case "create", "update":
		return s.store(c, gvk)
	case "patch":
		return s.patch(c)
	}
	o := &metav1.DeleteOptions{}
	if len(c.Body) > 0 {
		decoded, err := s.wire.decode(c.Header.Get("Content-Type"), c.Body, c.gvr.GroupVersion().WithKind("DeleteOptions"))
		if err != nil {
			return nil, err
		}
		o = decoded.(*metav1.DeleteOptions)
	}
	return s.table.erase(c.key(), o)
}

func (s *Server) list(c Call, gvk schema.GroupVersionKind) (runtime.Object, error) {
	list, err := s.wire.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	var items []runtime.Object
	for _, obj := range s.present(c) {
		items = append(items, obj)
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(strconv.FormatInt(s.table.version, 10))
	return list, nil
}

func (s *Server) present(c Call) (out []Object) {
	selector := parseSelector(first(c.Query["fieldSelector"]))
	for k, obj := range s.table.objects {
		if c.about(k) && matches(obj, selector) {
			out = append(out, obj)
		}
	}
	return out
}

func (c Call) about(k key) bool {
	return k.resource == c.gvr && (c.Namespace == "" || c.Namespace == k.namespace)
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (s *Server) store(c Call, gvk schema.GroupVersionKind) (runtime.Object, error) {
	decoded, err := s.wire.decode(c.Header.Get("Content-Type"), c.Body, gvk)
	if err != nil {
		return nil, err
	}
	obj, ok := decoded.(Object)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T", decoded))
	}
	if c.Verb == "create" {
		k := c.key()
		k.name = obj.GetName()
		if k.name == "" {
			return nil, apierrors.NewBadRequest("metadata.name is required")
		}
		if err := s.signNew(obj); err != nil {
			return nil, err
		}
		return s.table.create(k, obj)
	}
	was, err := s.table.get(c.key())
	if err != nil {
		return nil, err
	}
	if c.Subresource == "status" {
		if obj, err = withStatus(was, obj); err != nil {
			return nil, err
		}
	}
	return s.table.replace(c.key(), obj)
}

// withStatus returns the object after a write to its status: all of next except the spec.
func withStatus(was, next Object) (Object, error) {
	out := next.DeepCopyObject().(Object)
	if err := copyField(out, was, "Spec"); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

func (s *Server) patch(c Call) (runtime.Object, error) {
	was, err := s.table.get(c.key())
	if err != nil {
		return nil, err
	}
	if t := c.Header.Get("Content-Type"); t != "application/strategic-merge-patch+json" {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", c.gvr.GroupResource(), c.Name, t, 0, true)
	}
	before, err := json.Marshal(was)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, c.Body, was)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := newLike(was)
	if err := json.Unmarshal(after, next); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if next.GetUID() != was.GetUID() {
		wrong := field.Invalid(field.NewPath("metadata", "uid"), next.GetUID(), "field is immutable")
		return nil, apierrors.NewInvalid(s.kinds[c.gvr].GroupKind(), c.Name, field.ErrorList{wrong})
	}
	if c.Subresource == "status" {
		if next, err = withStatus(was, next); err != nil {
			return nil, err
		}
	}
	if same(was, next) {
		return was, nil
	}
	return s.table.replace(c.key(), next)
}

func (s *Server) issue(c Call) (runtime.Object, error) {
	decoded, err := s.wire.decode(c.Header.Get("Content-Type"), c.Body, authv1.SchemeGroupVersion.WithKind("TokenRequest"))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.table.get(c.key()); err != nil {
		return nil, err
	}
	r := decoded.(*authv1.TokenRequest).DeepCopy()
	life := int64(3600)
	if r.Spec.ExpirationSeconds != nil {
		life = *r.Spec.ExpirationSeconds
	}
	s.tokens++
	r.Status = authv1.TokenRequestStatus{
		Token:               fmt.Sprintf("token-%d", s.tokens),
		ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Duration(life) * time.Second).Truncate(time.Second)),
	}
	return r, nil
}
