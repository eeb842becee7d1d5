package auth

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Attributes are a verb and subresources of a node. Permission for one of the subresources is
// enough.
type Attributes struct {
	// Verb is the verb of the API: get for GET, create for POST, update for PUT, patch for PATCH,
	// delete for DELETE. Other methods have the verb "", which only a permission for all verbs
	// allows.
	Verb string
	// Subresources are never empty.
	Subresources []string
}

// ErrPath is returned for a path with an ambiguous form.
var ErrPath = errors.New("the path is not clean: it must be absolute, without ., .., // and encoded slashes")

var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// proxy is the subresource of all other paths, including commands in containers.
const proxy = "proxy"

var subresources = map[string][]string{
	"stats":       {"stats"},
	"metrics":     {"metrics"},
	"logs":        {"log"},
	"checkpoint":  {"checkpoint"},
	"statusz":     {"statusz"},
	"pods":        {"pods", proxy},
	"runningpods": {"pods", proxy},
	"healthz":     {"healthz", proxy},
	"configz":     {"configz", proxy},
	"flagz":       {"configz"},
}

// AttributesOf returns the attributes of a request from its method and the first segment of its
// path:
//
//	/stats                stats
//	/metrics              metrics
//	/logs                 log
//	/checkpoint           checkpoint
//	/statusz              statusz
//	/pods, /runningpods   pods, else proxy
//	/healthz              healthz, else proxy
//	/configz              configz, else proxy
//	/flagz                configz
//	all others            proxy
//
// An exec by websocket is a GET, so its verb is get. AttributesOf returns ErrPath for a path that
// is not plain, because a router that cleans paths would serve a different path than the authorized
// one.
func AttributesOf(method string, u *url.URL) (Attributes, error) {
	if !Plain(u) {
		return Attributes{}, ErrPath
	}
	first, _, _ := strings.Cut(u.Path[1:], "/")
	found, ok := subresources[first]
	if !ok {
		found = []string{proxy}
	}
	return Attributes{Verb: verbs[method], Subresources: slices.Clone(found)}, nil
}

// Plain reports whether a path is unambiguous: it is absolute and clean, its encoding hides no
// slash, and decoding it again changes nothing.
func Plain(u *url.URL) bool {
	p := u.Path
	if !strings.HasPrefix(p, "/") || u.Opaque != "" {
		return false
	}
	if path.Clean(p) != p && path.Clean(p)+"/" != p {
		return false
	}
	if strings.Count(u.EscapedPath(), "/") != strings.Count(p, "/") || strings.ContainsFunc(p, hidden) {
		return false
	}
	again, err := url.PathUnescape(p)
	return err != nil || again == p
}

// hidden reports whether a character is a backslash or a control character.
func hidden(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }
