// Package config reads what the kubelet is told, its flags and its configuration file
// (kubelet.config.k8s.io/v1beta1), by the upstream names, into the one Config that all
// parts are built from. Flags win over the file; then the defaults are filled in, and
// the whole is validated.
//
// The support policy: a value that asks for behaviour this kubelet lacks is
// refused by name at start. Zero values and the v1beta1 defaults are accepted.
package config
