{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* Rules that a schema can only state, not explain. Stops with every problem at once. */}}
{{- define "addressd.check" -}}
{{- $problems := list -}}
{{- $dns := "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" -}}
{{- range $key := list "revision" "serviceName" "trustedZtunnelNamespace" "trustedZtunnelName" -}}
  {{- $value := get $.Values $key -}}
  {{- if or (not (regexMatch $dns $value)) (gt (len $value) 63) -}}
    {{- $problems = append $problems (printf "%s: %q is not a name of Kubernetes; it takes a-z, 0-9 and dashes between them, at most 63" $key $value) -}}
  {{- end -}}
{{- end -}}
{{- range .Values.xdsTrustedAccounts -}}
  {{- if not (regexMatch "^[^/, ]+/[^/, ]+$" .) -}}
    {{- $problems = append $problems (printf "xdsTrustedAccounts: %q is not an account; write it as NAMESPACE/NAME" .) -}}
  {{- end -}}
{{- end -}}
{{- with .Values.keepaliveMaxServerConnectionAge -}}
  {{- if not (regexMatch "^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$" .) -}}
    {{- $problems = append $problems (printf "keepaliveMaxServerConnectionAge: %q is not a duration; write it like 30m or 1h30m" .) -}}
  {{- end -}}
{{- end -}}
{{- range tuple "rollingMaxSurge" "rollingMaxUnavailable" -}}
  {{- $value := get $.Values . -}}
  {{- if and (kindIs "string" $value) (not (regexMatch "^[0-9]+%$" $value)) -}}
    {{- $problems = append $problems (printf "%s: %q is neither a number nor a percentage; write it like 1 or 25%%" . $value) -}}
  {{- end -}}
{{- end -}}
{{- if contains "/" .Values.global.multiCluster.clusterName -}}
  {{- $problems = append $problems (printf "global.multiCluster.clusterName: %q has a slash, which names of workloads cannot hold" .Values.global.multiCluster.clusterName) -}}
{{- end -}}
{{- range tuple "POD_NAME" "POD_NAMESPACE" -}}
  {{- if hasKey $.Values.env . -}}
    {{- $problems = append $problems (printf "env.%s: this is what Kubernetes says of the pod; leave it out" .) -}}
  {{- end -}}
{{- end -}}
{{- range $key := keys (include "addressd.selector" . | fromYaml) | sortAlpha -}}
  {{- if hasKey $.Values.podLabels $key -}}
    {{- $problems = append $problems (printf "podLabels: %s is how the Service finds the pods; leave it out" $key) -}}
  {{- end -}}
{{- end -}}
{{- with $problems -}}
  {{- printf "the values have %d problem(s):\n  %s" (len .) (join "\n  " .) | fail -}}
{{- end -}}
{{- end -}}
