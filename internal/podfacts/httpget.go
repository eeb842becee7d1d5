package podfacts

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// HTTPTarget returns the URL of an httpGet handler. The path may have a query. A path that
// cannot be parsed is used literally.
func HTTPTarget(action *v1.HTTPGetAction, host string, port int) *url.URL {
	target, err := url.Parse(action.Path)
	if err != nil || target.Opaque != "" {
		target = &url.URL{Path: action.Path}
	}
	target.User = nil
	if !strings.HasPrefix(target.Path, "/") {
		target.Path = "/" + target.Path
		if target.RawPath != "" {
			target.RawPath = "/" + target.RawPath
		}
	}
	target.Scheme = strings.ToLower(string(action.Scheme))
	if target.Scheme == "" {
		target.Scheme = "http"
	}
	target.Host = net.JoinHostPort(host, strconv.Itoa(port))
	return target
}

// HTTPHeader returns the header of an httpGet handler. An empty User-Agent or Accept of the
// handler removes the default one.
func HTTPHeader(action *v1.HTTPGetAction, agent string) http.Header {
	header := http.Header{}
	for _, h := range action.HTTPHeaders {
		header.Add(h.Name, h.Value)
	}
	if _, ok := header["User-Agent"]; !ok {
		header.Set("User-Agent", agent)
	}
	switch _, ok := header["Accept"]; {
	case !ok:
		header.Set("Accept", "*/*")
	case header.Get("Accept") == "":
		header.Del("Accept")
	}
	return header
}
