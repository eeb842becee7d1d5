package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// api is a minimal API server for a kubelet. It keeps objects in memory, which clients get, list,
// watch, create, replace and patch. It has no kinds, defaults, validation or garbage collection.
type api struct {
	mu      sync.Mutex
	objects map[string]object // by path: /api/v1/namespaces/default/pods/a
	events  []event
	changed chan struct{} // closed and replaced at each event
}

// object is an object as JSON. Stored objects are immutable.
type object = map[string]any

// event is one event of a watch. Its number in api.events, counted from 1, is the resource
// version.
type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
	path   string
}

func newAPI() *api {
	return &api{objects: map[string]object{}, changed: make(chan struct{})}
}

// put stores an object at path, whose last element is the object's name.
func (a *api) put(path string, o object) object {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := "MODIFIED"
	if a.objects[path] == nil {
		kind = "ADDED"
	}
	o = maps.Clone(o)
	metadata := maps.Clone(child(o, "metadata"))
	if metadata["uid"] == nil {
		metadata["uid"] = "uid-" + path[strings.LastIndexByte(path, '/')+1:]
	}
	metadata["resourceVersion"] = strconv.Itoa(len(a.events) + 1)
	o["metadata"] = metadata
	a.objects[path] = o
	a.events = append(a.events, event{kind, o, path})
	close(a.changed)
	a.changed = make(chan struct{})
	return o
}

func child(o object, name string) object {
	if c, ok := o[name].(object); ok {
		return c
	}
	return object{}
}

func (a *api) get(path string) object {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.objects[path]
}

// ServeHTTP responds to the requests that a kubelet needs, and with 404 to all others.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, subresource, named := splitPath(r.URL.Path)
	var body object
	if text, _ := io.ReadAll(r.Body); len(text) > 0 {
		if err := json.Unmarshal(text, &body); err != nil {
			failure(w, http.StatusUnsupportedMediaType, "UnsupportedMediaType")
			return
		}
	}
	switch {
	case r.Method == http.MethodPost && subresource == "token":
		answer(w, http.StatusCreated, token(body))
	case r.Method == http.MethodPost && !named:
		a.create(w, path, body)
	case r.Method == http.MethodGet && !named:
		a.list(w, r, path)
	case a.get(path) == nil || !named:
		failure(w, http.StatusNotFound, "NotFound")
	case r.Method == http.MethodGet:
		answer(w, http.StatusOK, a.get(path))
	case r.Method == http.MethodPut:
		answer(w, http.StatusOK, a.put(path, body))
	case r.Method == http.MethodPatch:
		answer(w, http.StatusOK, a.put(path, merge(a.get(path), body)))
	default:
		failure(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

// splitPath splits the subresource from a path, and reports whether the rest names a single
// object.
func splitPath(path string) (object, subresource string, named bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	rest := 2 // api/v1
	if parts[0] == "apis" {
		rest = 3
	}
	if len(parts) > rest+2 && parts[rest] == "namespaces" {
		rest += 2
	}
	if len(parts) > rest+2 {
		subresource = parts[rest+2]
		parts = parts[:rest+2]
	}
	return "/" + strings.Join(parts, "/"), subresource, len(parts) == rest+2
}

func (a *api) create(w http.ResponseWriter, path string, body object) {
	name, _ := child(body, "metadata")["name"].(string)
	if name == "" {
		failure(w, http.StatusUnprocessableEntity, "Invalid")
		return
	}
	if path += "/" + name; a.get(path) != nil {
		failure(w, http.StatusConflict, "AlreadyExists")
		return
	}
	answer(w, http.StatusCreated, a.put(path, body))
}

// list responds to lists and watches.
func (a *api) list(w http.ResponseWriter, r *http.Request, path string) {
	q := r.URL.Query()
	wanted := func(o object, at string) bool {
		return strings.HasPrefix(at, path+"/") || inAnyNamespace(at, path)
	}
	if selector := q.Get("fieldSelector"); selector != "" {
		all := wanted
		wanted = func(o object, at string) bool { return all(o, at) && selects(selector, o) }
	}
	if q.Get("watch") != "" {
		a.watch(w, r, wanted)
		return
	}
	a.mu.Lock()
	items := []object{}
	for _, at := range slices.Sorted(maps.Keys(a.objects)) {
		if o := a.objects[at]; wanted(o, at) {
			items = append(items, o)
		}
	}
	version := strconv.Itoa(len(a.events))
	a.mu.Unlock()
	kind, group := "List", "v1"
	if len(items) > 0 {
		kind, group = fmt.Sprint(items[0]["kind"], "List"), fmt.Sprint(items[0]["apiVersion"])
	}
	answer(w, http.StatusOK, object{"kind": kind, "apiVersion": group, "metadata": object{"resourceVersion": version}, "items": items})
}

// inAnyNamespace reports whether the list at path, of all namespaces, includes the object at
// path at.
func inAnyNamespace(at, path string) bool {
	i := strings.LastIndexByte(path, '/')
	root, resource := path[:i], path[i+1:]
	parts := strings.Split(strings.TrimPrefix(at, root+"/namespaces/"), "/")
	return strings.HasPrefix(at, root+"/namespaces/") && len(parts) == 3 && parts[1] == resource
}

// selects evaluates field selectors of the form a.b=c,d.e!=f.
func selects(selector string, o object) bool {
	for _, term := range strings.Split(selector, ",") {
		field, value, _ := strings.Cut(term, "=")
		field, not := strings.CutSuffix(field, "!")
		at := any(o)
		for _, name := range strings.Split(field, ".") {
			of, _ := at.(object)
			at = of[name]
		}
		text, _ := at.(string)
		if (text == value) == not {
			return false
		}
	}
	return true
}

// watch sends the existing objects if the request wants initial events, and then each change until
// the client closes the connection.
func (a *api) watch(w http.ResponseWriter, r *http.Request, wanted func(object, string) bool) {
	q := r.URL.Query()
	next, _ := strconv.Atoi(q.Get("resourceVersion"))
	initial := q.Get("sendInitialEvents") == "true"
	if initial {
		next = 0
	}
	encoder, control := json.NewEncoder(w), http.NewResponseController(w)
	for r.Context().Err() == nil {
		a.mu.Lock()
		events, changed := a.events[min(next, len(a.events)):], a.changed
		a.mu.Unlock()
		for _, e := range events {
			if wanted(e.Object, e.path) {
				_ = encoder.Encode(e)
			}
		}
		next += len(events)
		if initial {
			initial = false
			_ = encoder.Encode(event{Type: "BOOKMARK", Object: a.bookmark(r.URL.Path, next)})
		}
		_ = control.Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
	}
}

// bookmark returns the event that ends the initial events. Its kind must be the watched one.
func (a *api) bookmark(path string, version int) object {
	kind, group := kindOf(path)
	return object{"kind": kind, "apiVersion": group, "metadata": object{
		"resourceVersion": strconv.Itoa(version),
		"annotations":     object{"k8s.io/initial-events-end": "true"},
	}}
}

// kinds maps the resources that kubelets watch to their kinds.
var kinds = map[string]string{
	"pods": "Pod", "nodes": "Node", "services": "Service", "configmaps": "ConfigMap", "secrets": "Secret",
	"runtimeclasses": "RuntimeClass", "csidrivers": "CSIDriver", "resourceslices": "ResourceSlice", "clustertrustbundles": "ClusterTrustBundle",
	"podcertificaterequests": "PodCertificateRequest",
}

func kindOf(path string) (kind, group string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group = parts[1]
	if parts[0] == "apis" {
		group = parts[1] + "/" + parts[2]
	}
	return kinds[parts[len(parts)-1]], group
}

// merge applies a patch of fields. It replaces lists, which suffices for a status that only the
// kubelet writes.
func merge(into, patch object) object {
	out := maps.Clone(into)
	for key, value := range patch {
		switch fields, ok := value.(object); {
		case strings.HasPrefix(key, "$"): // directives for the order of lists are ignored
		case value == nil:
			delete(out, key)
		case ok:
			out[key] = merge(child(out, key), fields)
		default:
			out[key] = value
		}
	}
	return out
}

// token responds to a request for a service account's token.
func token(request object) object {
	out := maps.Clone(request)
	out["status"] = object{"token": "the-token", "expirationTimestamp": "2999-01-01T00:00:00Z"}
	return out
}

func answer(w http.ResponseWriter, code int, value object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}

func failure(w http.ResponseWriter, code int, reason string) {
	answer(w, code, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": reason})
}
