package auth

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Attributes are what a request asks for: a verb on subresources of a node, any of which
// is enough.
type Attributes struct {
	// Verb is that of the API: get for GET, create for POST, update for PUT, patch for PATCH,
	// delete for DELETE. Other methods have none, which only those may use who may use all.
	Verb string
	// Subresources are never empty. Who may use one of them may go on.
	Subresources []string
}

// ErrPath says that a path is written in a way that could be read as another one.
var ErrPath = errors.New("the path is not in its plain form")

var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// proxy is what everything else is: it runs commands in containers.
const proxy = "proxy"

// subresources has those of the paths that begin with a segment.
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

// AttributesOf says what a request asks for, by its method and the first segment of its
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
// An exec by websocket is a GET, so its verb is get. It returns ErrPath for a path that is
// not plain: a router that cleans paths would serve another one than was asked about.
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

// Plain tells whether everybody reads a path alike: it is absolute and clean, its encoding
// hides no slash, and decoding it once more changes nothing.
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

// hidden tells of characters that are no part of a name: separators of other systems, and
// what cannot be seen.
func hidden(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }
