{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* The revision with a dash before it; nothing for the default one. */}}
{{- define "addressd.suffix" -}}
{{- if and .Values.revision (ne .Values.revision "default") -}}-{{ .Values.revision }}{{- end -}}
{{- end -}}

{{/* Objects of the namespace. */}}
{{- define "addressd.name" -}}
addressd{{ include "addressd.suffix" . }}
{{- end -}}

{{/* Objects of the cluster, of which each release needs its own. */}}
{{- define "addressd.clusterName" -}}
{{ include "addressd.name" . }}-{{ .Release.Namespace }}
{{- end -}}

{{- define "addressd.serviceName" -}}
{{ .Values.serviceName | default (print "istiod" (include "addressd.suffix" .)) }}
{{- end -}}

{{- define "addressd.meshConfigName" -}}
istio{{ include "addressd.suffix" . }}
{{- end -}}

{{- define "addressd.selector" -}}
app.kubernetes.io/name: addressd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Those of the pods. The mesh is not to capture what it depends on. */}}
{{- define "addressd.podLabels" -}}
{{- $labels := dict "istio.io/dataplane-mode" "none" "sidecar.istio.io/inject" "false" "istio.io/rev" (.Values.revision | default "default") -}}
{{- mergeOverwrite $labels .Values.podLabels (include "addressd.selector" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "addressd.labels" -}}
{{ include "addressd.selector" . }}
app.kubernetes.io/part-of: addressd
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
istio.io/rev: {{ .Values.revision | default "default" }}
{{- end -}}

{{- define "addressd.image" -}}
{{- if contains "/" .Values.image -}}
{{ .Values.image }}
{{- else -}}
{{- with .Values.hub | default .Values.global.hub }}{{ . }}/{{ end -}}
{{ .Values.image }}:{{ .Values.tag | default .Values.global.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Values of istiod's chart that change nothing here, so that its files of values can be used; NOTES.txt says which were given. */}}
{{- define "addressd.ignoredValues" -}}
autoscaleBehavior autoscaleEnabled autoscaleMax autoscaleMin base cni compatibilityVersion cpu experimental gatewayClasses
gateways initContainers istiodRemote jwksResolverExtraRootCA memory ownerName profile revisionTags sidecarInjectorWebhook
sidecarInjectorWebhookAnnotations telemetry traceSampling variant
{{- end -}}
