package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/internal/testkit/golden"
)

// startCluster serves an API with the pods, bound to the node, and the objects that they refer to.
// The returned function stops the server.
func startCluster(o options, e golden.Environment, names []string) (func(), error) {
	a := newAPI()
	if err := a.load(filepath.Join(o.manifests(), "..", "objects.yaml")); err != nil {
		return nil, err
	}
	for _, name := range names {
		pod, err := readManifest(o, name)
		if err != nil {
			return nil, err
		}
		setDefaults(pod)
		pod.Spec.NodeName = e.NodeName
		pod.TypeMeta.Kind, pod.TypeMeta.APIVersion = "Pod", "v1"
		pod.Status.Phase = v1.PodPending
		value, err := asObject(pod)
		if err != nil {
			return nil, err
		}
		a.put("/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name, value)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: a}
	go func() { _ = server.Serve(listener) }() // ends with Close
	config := fmt.Sprintf(kubeconfigFormat, listener.Addr())
	return func() { server.Close() }, os.WriteFile(kubeconfig, []byte(config), 0o600)
}

const kubeconfig = scratch + "/kubeconfig"

const kubeconfigFormat = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://%s"}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// load stores the objects of a file. The plural of an object's kind is its resource.
func (a *api) load(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var o object
		if err := yaml.Unmarshal(document, &o); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		metadata := child(o, "metadata")
		at := "/apis/" + fmt.Sprint(o["apiVersion"])
		if o["apiVersion"] == "v1" {
			at = "/api/v1"
		}
		if namespace, ok := metadata["namespace"].(string); ok {
			at += "/namespaces/" + namespace
		}
		a.put(at+"/"+plural(fmt.Sprint(o["kind"]))+"/"+fmt.Sprint(metadata["name"]), o)
	}
}

func plural(kind string) string {
	kind = strings.ToLower(kind)
	if strings.HasSuffix(kind, "s") {
		return kind + "es"
	}
	return kind + "s"
}

func asObject(value any) (object, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out object
	return out, json.Unmarshal(text, &out)
}
