package main

import "encoding/json"

// kubeconfig returns a kubeconfig for a user of the API server at url. It contains all
// certificates. It is JSON, which is valid YAML.
func kubeconfig(url string, ca []byte, user string, credentials pair) ([]byte, error) {
	type object = map[string]any
	const name = "podwright"
	return json.MarshalIndent(object{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": name, "cluster": object{"server": url, "certificate-authority-data": ca}}},
		"users": []object{{"name": user, "user": object{
			"client-certificate-data": credentials.certificate, "client-key-data": credentials.key,
		}}},
		"contexts": []object{{"name": name, "context": object{"cluster": name, "user": user}}},
	}, "", "  ")
}
