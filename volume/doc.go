// Package volume gives pods their volumes: mounted before their containers start,
// unmounted after they have stopped, and neither because something is not known yet.
//
// A Plugin knows one kind of volume (packages below this one, or your own). A Spec is
// one volume of one pod, claims resolved. A Layout says where things are on the disk,
// as every kubelet has it, so that agents can take over each other's pods.
//
//	Spec ── Plugin.Mount ──▶ Mounted ──▶ the containers' mounts
//	          ▲
//	          └ Stager.Stage, first, for what all pods of the node share
//
// # To write a plugin
//
// Mount, Unmount and two methods that say which volumes are meant. Mount is called
// again and again and makes what is missing; Unmount gets no more than the names of
// things, since the agent that unmounts may not be the one that mounted, and may have
// no Spec any more. What more a plugin can do is an interface of its own that it
// implements too: Stager, Remounter, Dependent, Attachable, Expander. Package
// volumetest tests a plugin against all that is said here.
package volume
