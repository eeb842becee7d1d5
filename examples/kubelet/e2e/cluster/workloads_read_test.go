package cluster_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/jsonpath"
)

// apiPaths are the API paths of the kinds. NS is replaced.
var apiPaths = map[string]string{
	"pod":        "/api/v1/namespaces/NS/pods",
	"event":      "/api/v1/namespaces/NS/events",
	"node":       "/api/v1/nodes",
	"daemonset":  "/apis/apps/v1/namespaces/NS/daemonsets",
	"deployment": "/apis/apps/v1/namespaces/NS/deployments",
	"job":        "/apis/batch/v1/namespaces/NS/jobs",
	"cronjob":    "/apis/batch/v1/namespaces/NS/cronjobs",
}

// reader reads objects without kubectl at a hundredth of the cost: waits must not use most of the
// machine.
type reader struct {
	url  string
	http *http.Client
}

func newReader(kubeconfig string) (r reader, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return r, err
	}
	r.url = config.Host
	r.http, err = rest.HTTPClientFor(config)
	return r, err
}

// read decodes the object at a path, and reports whether it exists.
func (r reader) read(path string, into any) (found bool, err error) {
	response, err := r.http.Get(r.url + path)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return false, err
	case response.StatusCode == http.StatusNotFound:
		return false, nil
	case response.StatusCode != http.StatusOK:
		return false, fmt.Errorf("%s: %s", response.Status, body)
	}
	return true, json.Unmarshal(body, into)
}

// field returns the output of kubectl get KIND NAME --ignore-not-found -o jsonpath=.
func (n *node) field(kind, name, path string) (string, error) {
	folder, ok := apiPaths[kind]
	if !ok {
		return "", errors.ErrUnsupported
	}
	var object any
	found, err := n.reader.read(strings.Replace(folder, "NS", n.namespace, 1)+"/"+name, &object)
	if err != nil || !found {
		return "", err
	}
	return evaluate(object, path)
}

// evaluate returns the output of kubectl get -o jsonpath= for an object.
func evaluate(object any, path string) (string, error) {
	expression, out := jsonpath.New(path).AllowMissingKeys(true), bytes.Buffer{}
	if err := expression.Parse(path); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	err := expression.Execute(&out, object)
	return out.String(), err
}
