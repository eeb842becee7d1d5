// Package config reads the kubelet's flags and its configuration file
// (kubelet.config.k8s.io/v1beta1), with upstream's names, for the kubelet's parts. The result is
// one Config.
//
//	cfg, err := config.FromArgs(os.Args[1:], os.Stderr)
//
// Flags override the file. Defaults are then filled in, and the result is validated.
//
// A value that needs behaviour which this kubelet lacks is an error at start that names the field.
// Zero values and the v1beta1 defaults are accepted.
package config
